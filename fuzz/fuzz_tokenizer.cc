// Tokenizers: the first byte says whether a tokenizer.json or a GGUF's metadata follows. What loads must encode and
// decode a text without faults, and give ids within its vocabulary.
#include <cstdlib>
#include <memory>
#include <string_view>

#include "ullage/model/gguf.h"
#include "ullage/text/tokenizer.h"
#include "ullage/text/tokenizer_gguf.h"

using namespace ullage;

namespace {

constexpr std::string_view kText =
    "Hello w\xc3\xb6rld 123, don't  stop\n\n\t\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x99\x82\xff<|im_end|></s>";

void use(const text::Tokenizer& tokenizer) {
  const auto tokens = tokenizer.encode(kText);
  for (const TokenId token : tokens) {
    if (token < 0 || token >= tokenizer.vocab_size()) std::abort();
    (void)tokenizer.token_name(token);
  }
  (void)tokenizer.decode(tokens);
  (void)tokenizer.token_bytes(-1, false);
  (void)tokenizer.token_bytes(static_cast<TokenId>(tokenizer.vocab_size()), false);
  text::StreamDecoder decoder(tokenizer, true);
  for (const TokenId token : tokens) (void)decoder.push(token);
  (void)decoder.flush();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const char mode = static_cast<char>(data[0]);
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (mode == 'J') {
    const auto tokenizer = text::load_tokenizer_json(rest, "", "fuzz/tokenizer.json");
    if (tokenizer) use(**tokenizer);
  } else if (mode == 'G') {
    const auto file = model::GgufFile::parse(std::as_bytes(std::span(rest)), "fuzz.gguf");
    if (!file) return 0;
    const auto tokenizer = text::load_tokenizer_gguf(*file);
    if (tokenizer) use(**tokenizer);
  }
  return 0;
}
