#include "ullage/text/tokenizer.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "ullage/base/mapped_file.h"
#include "ullage/text/byte_alphabet.h"
#include "ullage/text/utf8.h"

namespace ullage::text {
namespace {

using Ids = std::vector<TokenId>;

std::string read(const std::string& name) {
  Result<std::string> text = read_text_file(std::string(ULLAGE_SOURCE_DIR "/tests/data/tokenizers/") + name, 1 << 26);
  if (!text) ADD_FAILURE() << text.error().to_string();
  return text ? *text : "";
}

std::unique_ptr<Tokenizer> load(const std::string& name, std::string_view config = "") {
  auto tokenizer = load_tokenizer_json(read(name), config, name);
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().to_string();
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

const Tokenizer& qwen2() {
  static const std::unique_ptr<Tokenizer> tokenizer = load("qwen2-small.json");
  return *tokenizer;
}

const Tokenizer& llama2() {
  static const std::unique_ptr<Tokenizer> tokenizer = load("llama2-small.json");
  return *tokenizer;
}

TEST(ByteAlphabet, IsOneToOne) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(bytes_of_spelling(spelling_of_bytes(all)), all);
  EXPECT_EQ(spelling_of_bytes(" \n"), "\xC4\xA0\xC4\x8A");
  EXPECT_EQ(bytes_of_spelling("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_spelling("\xE4\xBD\xA0"), std::nullopt);
}

TEST(Tokenizer, AddsBosAndEosAsTheFilesSay) {
  const TokenId bos = 1;
  EncodeOptions plain;
  plain.add_special_tokens = false;
  const Ids hello = llama2().encode("hello", plain);
  Ids with_bos = hello;
  with_bos.insert(with_bos.begin(), bos);
  EXPECT_EQ(llama2().encode("hello"), with_bos);
  EXPECT_EQ(llama2().encode(""), Ids{bos});
  EXPECT_EQ(llama2().bos_token(), bos);
  // As transformers does, a config that speaks of BOS or EOS outweighs the post-processor.
  const auto other =
      load("llama2-small.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_eos_token": true})");
  Ids with_eos = hello;
  with_eos.push_back(2);
  EXPECT_EQ(other->encode("hello"), with_eos);
  EXPECT_EQ(Ids(other->eos_tokens().begin(), other->eos_tokens().end()), Ids{2});
}

TEST(Tokenizer, FindsSpecialTokensOnlyWhereAllowed) {
  const TokenId im_end = qwen2().find_token("<|im_end|>");
  const TokenId think = qwen2().find_token("<think>");
  ASSERT_GE(im_end, 0);
  const std::string text = "a<|im_end|>b<|im_end|><think>";
  const auto count = [&](const EncodeOptions& options, TokenId id) {
    const Ids ids = qwen2().encode(text, options);
    EXPECT_EQ(qwen2().decode(ids, false), text);
    return std::count(ids.begin(), ids.end(), id);
  };
  EncodeOptions options;
  EXPECT_EQ(count(options, im_end), 2);
  options.parse_special_everywhere = false;
  EXPECT_EQ(count(options, im_end), 0);
  EXPECT_EQ(count(options, think), 1);  // part of the language, not control
  const TextRange second[] = {{12, 22}};
  options.special_ranges = second;
  EXPECT_EQ(count(options, im_end), 1);
  EXPECT_EQ(qwen2().encode(text, options).back(), think);
  const TextRange too_short[] = {{0, 10}, {12, 21}};
  options.special_ranges = too_short;
  EXPECT_EQ(count(options, im_end), 0);
}

TEST(Tokenizer, RangesMoveWithRepairedText) {
  const TokenId im_end = qwen2().find_token("<|im_end|>");
  const std::string text = "\xFF\xFE<|im_end|>";
  const TextRange range[] = {{2, 12}};
  EncodeOptions options;
  options.parse_special_everywhere = false;
  options.special_ranges = range;
  EXPECT_EQ(qwen2().encode(text, options).back(), im_end);
}

TEST(Tokenizer, SkipsSpecialTokensInText) {
  const Ids ids = qwen2().encode("a<|im_end|>b<think>");
  EXPECT_EQ(qwen2().decode(ids), "ab<think>");
  EXPECT_EQ(qwen2().decode(ids, false), "a<|im_end|>b<think>");
  EXPECT_EQ(qwen2().token_name(qwen2().find_token("<|im_end|>")), "<|im_end|>");
  EXPECT_TRUE(qwen2().is_special(qwen2().find_token("<|im_end|>")));
}

TEST(Tokenizer, IdsOutOfRangeGiveNothing) {
  for (const TokenId id : {-1, INT32_MIN, INT32_MAX, static_cast<TokenId>(qwen2().vocab_size())}) {
    EXPECT_EQ(qwen2().token_bytes(id, false), "");
    EXPECT_EQ(qwen2().token_name(id), "");
    EXPECT_FALSE(qwen2().is_special(id));
  }
  EXPECT_EQ(qwen2().decode(Ids{-5, 1 << 30}), "");
}

TEST(Tokenizer, SentencePieceDropsTheFirstSpaceOnly) {
  const Ids ids = llama2().encode("two words");  // with BOS, which is no first token of the text
  EXPECT_EQ(llama2().decode(ids), "two words");
  std::string continued;
  StreamDecoder decoder(llama2(), true, /*is_first=*/false);
  for (const TokenId id : ids) continued += decoder.push(id);
  EXPECT_EQ(continued + decoder.flush(), " two words");
}

// A character's bytes in several tokens come out when the last of them is there.
TEST(StreamDecoder, HoldsBackUnfinishedCharacters) {
  const auto byte = [&](uint8_t b) {
    return llama2().find_token("<0x" + std::string(1, "0123456789ABCDEF"[b >> 4]) + "0123456789ABCDEF"[b & 15] + ">");
  };
  StreamDecoder decoder(llama2(), true);
  EXPECT_EQ(decoder.push(byte(0xF0)), "");
  EXPECT_EQ(decoder.push(byte(0x9F)), "");
  EXPECT_EQ(decoder.push(byte(0x98)), "");
  EXPECT_EQ(decoder.push(byte(0x80)), "\xF0\x9F\x98\x80");
  EXPECT_EQ(decoder.push(byte(0xE2)), "");
  EXPECT_EQ(decoder.push(byte('A')),
            "\xEF\xBF\xBD"
            "A");
  EXPECT_EQ(decoder.push(byte(0xC3)), "");
  EXPECT_EQ(decoder.flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(StreamDecoder, EveryPartIsValidAndTheWholeIsTheRepairedBytes) {
  for (const Tokenizer* const tokenizer : {&qwen2(), &llama2()}) {
    rc::check("any tokens", [tokenizer](const std::vector<uint16_t>& numbers, bool skip_special) {
      Ids ids;
      for (const uint16_t n : numbers) ids.push_back(n % static_cast<TokenId>(tokenizer->vocab_size()));
      StreamDecoder decoder(*tokenizer, skip_special, false);
      std::string streamed;
      std::string bytes;
      for (const TokenId id : ids) {
        const std::string part = decoder.push(id);
        RC_ASSERT(is_valid_utf8(part));
        streamed += part;
        bytes += tokenizer->token_bytes(id, skip_special);
      }
      streamed += decoder.flush();
      RC_ASSERT(streamed == repair_utf8(bytes));
    });
  }
}

TEST(Tokenizer, AnyBytesComeBackRepaired) {
  const std::unique_ptr<Tokenizer> llama3 = load("llama3-small.json");
  EncodeOptions options;
  options.add_special_tokens = false;
  rc::check("any bytes", [&](const std::string& bytes) {
    RC_ASSERT(llama3->decode(llama3->encode(bytes, options), false) == repair_utf8(bytes));
    RC_ASSERT(llama2().decode(llama2().encode(bytes, options), false) == repair_utf8(bytes));
  });
}

}  // namespace
}  // namespace ullage::text
