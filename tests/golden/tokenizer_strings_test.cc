// 10,000 strings get the reference tokenizers' ids, and decode to their text. tests/data/tokenizers/README.md says what
// the references are.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/mapped_file.h"
#include "ullage/model/gguf.h"
#include "ullage/text/tokenizer.h"
#include "ullage/text/tokenizer_gguf.h"

namespace ullage::text {
namespace {

std::string data_path(const std::string& name) {
  return std::string(ULLAGE_SOURCE_DIR "/tests/data/tokenizers/") + name;
}

std::string read(const std::string& name) {
  Result<std::string> text = read_text_file(data_path(name), 1 << 26);
  if (!text) ADD_FAILURE() << text.error().to_string();
  return text ? *text : "";
}

std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    out += static_cast<char>(bits >> num_bits & 0xFF);
  }
  return out;
}

const std::vector<std::string>& strings() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    std::istringstream lines(read("strings.txt"));
    for (std::string line; std::getline(lines, line);) {
      const size_t space = line.find(' ');
      const std::string unit = from_base64(std::string_view(line).substr(0, space));
      const int times = space == std::string::npos ? 1 : std::stoi(line.substr(space + 1));
      std::string& whole = out.emplace_back();
      for (int i = 0; i < times; ++i) whole += unit;
    }
    return out;
  }();
  return all;
}

uint64_t fnv(auto first, auto last) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (; first != last; ++first) hash = (hash ^ static_cast<uint64_t>(*first)) * 0x100000001B3u;
  return hash;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) {
    if (c >= ' ' && c <= '~')
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  return out;
}

std::unique_ptr<Tokenizer> load(const std::string& file) {
  if (file.ends_with(".json")) {
    auto tokenizer = load_tokenizer_json(read(file), "", file);
    if (!tokenizer) ADD_FAILURE() << tokenizer.error().to_string();
    return tokenizer ? std::move(*tokenizer) : nullptr;
  }
  Result<MappedFile> mapped = MappedFile::open(data_path(file));
  if (!mapped) {
    ADD_FAILURE() << mapped.error().to_string();
    return nullptr;
  }
  auto gguf = model::GgufFile::parse(mapped->bytes(), file);
  if (!gguf) {
    ADD_FAILURE() << gguf.error().to_string();
    return nullptr;
  }
  auto tokenizer = load_tokenizer_gguf(*gguf);
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().to_string();
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

// Expects the hash of each string's ids, and of the text they decode to where the golden has one.
void expect_reference_ids(const std::string& file, const std::string& golden, bool parse_special) {
  const std::unique_ptr<Tokenizer> tokenizer = load(file);
  ASSERT_TRUE(tokenizer);
  EncodeOptions options;
  options.add_special_tokens = false;
  options.parse_special_everywhere = parse_special;
  std::istringstream lines(read(golden));
  int num_checked = 0;
  int num_skipped = 0;
  int num_wrong = 0;
  for (const std::string& text : strings()) {
    std::string hash, count, decoded_hash, line;
    std::getline(lines, line);
    if (line == "-") {  // the reference's Unicode tables are too old for this one
      ++num_skipped;
      continue;
    }
    std::istringstream(line) >> hash >> count >> decoded_hash;
    const std::vector<TokenId> ids = tokenizer->encode(text, options);
    ++num_checked;
    if (fmt::format("{:016x}", fnv(ids.begin(), ids.end())) != hash && ++num_wrong <= 10) {
      ADD_FAILURE() << file << ": other ids for \"" << printable(text) << "\": " << ids.size()
                    << " of them, the reference has " << count << ": "
                    << fmt::format("{}",
                                   fmt::join(ids.begin(), ids.begin() + std::min<long>(60, std::ssize(ids)), " "));
    }
    if (decoded_hash.empty()) continue;
    const std::string decoded = tokenizer->decode(ids, /*skip_special=*/false);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(decoded.data());
    if (fmt::format("{:08x}", static_cast<uint32_t>(fnv(bytes, bytes + decoded.size()))) != decoded_hash &&
        ++num_wrong <= 10) {
      ADD_FAILURE() << file << ": the ids of \"" << printable(text) << "\" decode to \"" << printable(decoded) << "\"";
    }
  }
  EXPECT_EQ(num_checked + num_skipped, 10000);
  EXPECT_LE(num_skipped, 50);
  EXPECT_EQ(num_wrong, 0) << file;
}

TEST(TokenizerStrings, SmolLM2FromGguf) { expect_reference_ids("smollm2-vocab.gguf", "smollm2.ids.txt", true); }
TEST(TokenizerStrings, Llama3) { expect_reference_ids("llama3-small.json", "llama3-small.ids.txt", true); }
TEST(TokenizerStrings, Qwen2) { expect_reference_ids("qwen2-small.json", "qwen2-small.ids.txt", true); }
TEST(TokenizerStrings, Llama2) { expect_reference_ids("llama2-small.json", "llama2-small.ids.txt", true); }
TEST(TokenizerStrings, MistralMetaspace) { expect_reference_ids("mistral-small.json", "mistral-small.ids.txt", true); }
TEST(TokenizerStrings, SentencePieceFromGguf) {
  expect_reference_ids("llama2-small.gguf", "llama2-small-gguf.ids.txt", false);
}
TEST(TokenizerStrings, EveryFlagAndSplitBehavior) { expect_reference_ids("flags.json", "flags.ids.txt", true); }

}  // namespace
}  // namespace ullage::text
