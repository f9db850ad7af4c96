// Tokenizer files that are wrong, or that Ullage cannot follow, end in an Error that names the place.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/mapped_file.h"
#include "ullage/base/random.h"
#include "ullage/text/tokenizer.h"

namespace ullage::text {
namespace {

Json small_file() {
  return *parse_json(R"({
    "added_tokens": [{"id": 4, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                       "special_tokens": {"<s>": {"id": "<s>", "ids": [4]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "abab": 3}, "merges": ["a b", ["ab", "ab"]]}
  })",
                     "test");
}

Result<std::unique_ptr<Tokenizer>> load(const Json& file, std::string_view config = "") {
  return load_tokenizer_json(dump_json(file), config, "t.json");
}

TEST(TokenizerFiles, ASmallOneWorks) {
  const auto tokenizer = load(small_file());
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  EXPECT_EQ((*tokenizer)->encode("ababb<s>?a"), (std::vector<TokenId>{4, 3, 1, 4, 0}));  // "?" is in no token
  EXPECT_EQ((*tokenizer)->vocab_size(), 5);
  EXPECT_EQ((*tokenizer)->max_token_bytes(), 4);  // "abab"
}

struct Fault {
  const char* pointer;  // where a value is put
  const char* value;
  ErrorCode code;
  const char* named;  // part of the message or the place
};

TEST(TokenizerFiles, FaultsAreNamed) {
  const Fault faults[] = {
      {"/model/type", "\"Unigram\"", ErrorCode::kUnsupported, "Unigram"},
      {"/model/type", "7", ErrorCode::kCorrupt, "/model/type"},
      {"/model/vocab", "[]", ErrorCode::kCorrupt, "/model/vocab"},
      {"/model/vocab/a", "-1", ErrorCode::kCorrupt, "id -1"},
      {"/model/vocab/a", "1e300", ErrorCode::kCorrupt, "/model/vocab"},
      {"/model/vocab/a", "9223372036854775807", ErrorCode::kCorrupt, "9223372036854775807"},
      {"/model/vocab/a", "18446744073709551615", ErrorCode::kCorrupt, "/model/vocab"},
      {"/model/vocab/a", "2147483648", ErrorCode::kCorrupt, "2147483648"},
      {"/model/vocab/a", "1", ErrorCode::kCorrupt, "two tokens"},
      {"/model/merges/0", "\"a c\"", ErrorCode::kCorrupt, "merge 0"},
      {"/model/merges/0", "\"a  b\"", ErrorCode::kCorrupt, "merge 0"},
      {"/model/merges/0", "\"ab\"", ErrorCode::kCorrupt, "merge 0"},
      {"/model/merges/0", "[\"\", \"a\"]", ErrorCode::kCorrupt, "merge 0"},
      {"/model/merges/1", "[\"a\"]", ErrorCode::kCorrupt, "/model/merges/1"},
      {"/model/merges/1", "{}", ErrorCode::kCorrupt, "/model/merges/1"},
      {"/model/merges", "null", ErrorCode::kCorrupt, "/model/merges"},
      {"/model/continuing_subword_prefix", "\"##\"", ErrorCode::kUnsupported, "##"},
      {"/normalizer", "{\"type\": \"Lowercase\"}", ErrorCode::kUnsupported, "Lowercase"},
      {"/normalizer", "{\"type\": \"Sequence\", \"normalizers\": 3}", ErrorCode::kCorrupt, "normalizers"},
      {"/normalizer", "[]", ErrorCode::kUnsupported, "/normalizer"},
      {"/pre_tokenizer", "{\"type\": \"BertPreTokenizer\"}", ErrorCode::kUnsupported, "BertPreTokenizer"},
      {"/pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}}", ErrorCode::kCorrupt, "(a"},
      {"/pre_tokenizer", "{\"type\": \"Split\", \"pattern\": 1}", ErrorCode::kCorrupt, "pattern"},
      {"/pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"String\": \"\"}}", ErrorCode::kCorrupt, "empty"},
      {"/pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Odd\"}",
       ErrorCode::kUnsupported, "Odd"},
      {"/pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": \"Digits\"}]}",
       ErrorCode::kUnsupported, "pretokenizers/1"},
      {"/pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"\"}", ErrorCode::kCorrupt, "replacement"},
      {"/decoder", "{\"type\": \"WordPiece\"}", ErrorCode::kUnsupported, "WordPiece"},
      {"/post_processor", "{\"type\": \"BertProcessing\"}", ErrorCode::kUnsupported, "BertProcessing"},
      {"/post_processor/special_tokens", "{}", ErrorCode::kCorrupt, "<s>"},
      {"/post_processor/special_tokens/<s>/ids/0", "99", ErrorCode::kCorrupt, "outside"},
      {"/added_tokens", "{}", ErrorCode::kCorrupt, "/added_tokens"},
      {"/added_tokens/0/id", "-7", ErrorCode::kCorrupt, "-7"},
      {"/added_tokens/0/id", "1e9", ErrorCode::kCorrupt, "/added_tokens/0/id"},
      {"/added_tokens/0/id", "1", ErrorCode::kCorrupt, "two tokens"},
      {"/added_tokens/0/id", "99999999", ErrorCode::kCorrupt, "99999999"},
      {"/added_tokens/0/special", "\"yes\"", ErrorCode::kCorrupt, "special"},
      {"/model", "null", ErrorCode::kCorrupt, "model"},
  };
  for (const Fault& fault : faults) {
    Json file = small_file();
    file[nlohmann::json_pointer<std::string>(fault.pointer)] = Json::parse(fault.value);
    const auto tokenizer = load(file);
    ASSERT_FALSE(tokenizer) << fault.pointer << " = " << fault.value;
    const std::string text = tokenizer.error().to_string();
    EXPECT_EQ(tokenizer.error().code, fault.code) << text;
    EXPECT_NE(text.find(fault.named), std::string::npos) << text;
    EXPECT_TRUE(tokenizer.error().where.starts_with("t.json")) << text;
  }
}

TEST(TokenizerFiles, OddOnesAreRead) {
  Json file = small_file();
  file["model"]["vocab"]["far"] = 500;  // a gap
  file["added_tokens"].push_back({{"id", 7}, {"content", "<s>"}});
  file["added_tokens"].push_back({{"id", 0}, {"content", ""}});
  file["model"]["merges"].push_back("a b");
  const auto tokenizer =
      load(file, R"({"added_tokens_decoder": {"600": {"content": "<x>", "special": true}}, "eos_token": "far"})");
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  EXPECT_EQ((*tokenizer)->vocab_size(), 601);
  EXPECT_EQ((*tokenizer)->token_name(450), "");
  EXPECT_EQ((*tokenizer)->encode("<x>far"), (std::vector<TokenId>{4, 600, 500}));
  EXPECT_TRUE((*tokenizer)->is_special(500));
  EXPECT_FALSE(load(small_file(), "{"));
  EXPECT_FALSE(load(small_file(), R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})"));
}

TEST(TokenizerFiles, LongAddedTokensAreRefused) {
  Json file = small_file();
  file["added_tokens"].push_back({{"id", 5}, {"content", std::string(5000, 'a')}});
  const auto tokenizer = load(file);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kTooLarge);
}

TEST(TokenizerFiles, NotJson) {
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("null"),
                                  std::string(100000, '['), std::string("\xFF")}) {
    EXPECT_FALSE(load_tokenizer_json(text, "", "t.json")) << text.substr(0, 20);
  }
}

// Random damage to real files: never a crash, and what loads also encodes.
TEST(TokenizerFiles, DamagedFilesNeverCrash) {
  for (const std::string name : {"flags.json", "llama2-small.json"}) {
    const Result<std::string> text = read_text_file(ULLAGE_SOURCE_DIR "/tests/data/tokenizers/" + name, 1 << 26);
    ASSERT_TRUE(text);
    RandomStream random(7);
    int num_loaded = 0;
    for (int i = 0; i < 150; ++i) {
      std::string damaged = *text;
      for (uint64_t k = random.below(3) + 1; k > 0; --k) {
        const size_t at = random.below(2) == 0 ? random.below(damaged.size()) : random.below(3000);
        switch (random.below(4)) {
          case 0:
            damaged[at] = static_cast<char>(random.below(256));
            break;
          case 1:
            damaged.erase(at, random.below(20));
            break;
          case 2:
            damaged.insert(at, damaged.substr(random.below(damaged.size()), random.below(30)));
            break;
          case 3:
            damaged[at] = "0123456789{}[]\",:\\-e"[random.below(20)];
            break;
        }
      }
      const auto tokenizer = load_tokenizer_json(damaged, "", name);
      if (!tokenizer) continue;
      ++num_loaded;
      (*tokenizer)->decode((*tokenizer)->encode("some <s> text, 123 \xF0\x9F\x98\x80 \xFF\n"));
    }
    EXPECT_GT(num_loaded, 0) << name;
  }
}

}  // namespace
}  // namespace ullage::text
