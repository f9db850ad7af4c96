// GGUF metadata that is wrong, or that Ullage cannot follow, ends in an Error that names the key.
#include "ullage/text/tokenizer_gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

namespace ullage::text {
namespace {

// Writes the metadata part of a GGUF file.
class GgufBuilder {
 public:
  void string(const std::string& key, const std::string& value) {
    entry(key, 8);
    text(value);
  }
  void boolean(const std::string& key, bool value) {
    entry(key, 7);
    number<uint8_t>(value);
  }
  void integer(const std::string& key, uint32_t value) {
    entry(key, 4);
    number(value);
  }
  void strings(const std::string& key, const std::vector<std::string>& values) {
    array(key, 8, values.size());
    for (const std::string& value : values) text(value);
  }
  void floats(const std::string& key, const std::vector<float>& values) {
    array(key, 6, values.size());
    for (const float value : values) number(value);
  }
  void integers(const std::string& key, const std::vector<int32_t>& values) {
    array(key, 5, values.size());
    for (const int32_t value : values) number(value);
  }
  std::string file() const {
    GgufBuilder head;
    head.bytes_ = "GGUF";
    head.number<uint32_t>(3);
    head.number<uint64_t>(0);
    head.number<uint64_t>(num_entries_);
    return head.bytes_ + bytes_;
  }

 private:
  template <class T>
  void number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }
  void text(const std::string& value) {
    number<uint64_t>(value.size());
    bytes_ += value;
  }
  void entry(const std::string& key, uint32_t type) {
    ++num_entries_;
    text(key);
    number(type);
  }
  void array(const std::string& key, uint32_t type, uint64_t n) {
    entry(key, 9);
    number(type);
    number(n);
  }

  std::string bytes_;
  uint64_t num_entries_ = 0;
};

Result<std::unique_ptr<Tokenizer>> load(const GgufBuilder& builder) {
  const std::string file = builder.file();
  auto gguf = model::GgufFile::parse({reinterpret_cast<const std::byte*>(file.data()), file.size()}, "t.gguf");
  EXPECT_TRUE(gguf) << gguf.error().to_string();
  if (!gguf) return gguf.error();
  return load_tokenizer_gguf(*gguf);
}

const std::vector<std::string> kTokens = {"a", "b", "ab", "<|im_end|>"};

TEST(TokenizerGguf, ByteLevel) {
  GgufBuilder b;
  b.string("tokenizer.ggml.model", "gpt2");
  b.string("tokenizer.ggml.pre", "llama-bpe");
  b.strings("tokenizer.ggml.tokens", kTokens);
  b.integers("tokenizer.ggml.token_type", {1, 1, 1, 3});
  b.strings("tokenizer.ggml.merges", {"a b"});
  b.integer("tokenizer.ggml.bos_token_id", 1);
  b.integer("tokenizer.ggml.eos_token_id", 0);
  const auto tokenizer = load(b);
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  // This cutting's models put a BOS first when the file does not say.
  EXPECT_EQ((*tokenizer)->encode("ab<|im_end|>a"), (std::vector<TokenId>{1, 2, 3, 0}));
  // The end of a turn ends the text too, though the file does not name it.
  EXPECT_EQ(std::vector<TokenId>((*tokenizer)->eos_tokens().begin(), (*tokenizer)->eos_tokens().end()),
            (std::vector<TokenId>{0, 3}));
}

TEST(TokenizerGguf, SentencePieceByScores) {
  GgufBuilder b;
  b.string("tokenizer.ggml.model", "llama");
  b.strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "\xE2\x96\x81", "a", "b", "ab",
                                      "\xE2\x96\x81"
                                      "a",
                                      "<0xC3>", "<0xA9>"});
  b.floats("tokenizer.ggml.scores", {0, 0, 0, -9, -9, -9, -1, -2, 0, 0});
  b.integers("tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 1, 1, 1, 6, 6});
  const auto tokenizer = load(b);
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  // "ab" scores higher than "_a": it is joined first.
  EXPECT_EQ((*tokenizer)->encode("aba"), (std::vector<TokenId>{1, 3, 6, 4}));
  EXPECT_EQ((*tokenizer)->encode("a \xC3\xA9"), (std::vector<TokenId>{1, 7, 3, 8, 9}));
  EXPECT_EQ((*tokenizer)->encode("z"), (std::vector<TokenId>{1, 3, 0}));  // no bytes for it: unknown
  EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{1, 7, 3, 8, 9}), "a \xC3\xA9");
}

TEST(TokenizerGguf, FaultsAreNamed) {
  struct Fault {
    const char* name;
    ErrorCode code;
    const char* named;
    std::function<void(GgufBuilder&)> add;
  };
  const auto gpt2 = [](GgufBuilder& b) {
    b.string("tokenizer.ggml.model", "gpt2");
    b.string("tokenizer.ggml.pre", "smollm");
    b.strings("tokenizer.ggml.tokens", kTokens);
  };
  const Fault faults[] = {
      {"nothing", ErrorCode::kUnsupported, "has no tokenizer", [](GgufBuilder&) {}},
      {"model", ErrorCode::kUnsupported, "\"bert\"", [](GgufBuilder& b) { b.string("tokenizer.ggml.model", "bert"); }},
      {"no tokens", ErrorCode::kCorrupt, "tokens", [](GgufBuilder& b) { b.string("tokenizer.ggml.model", "gpt2"); }},
      {"no pre", ErrorCode::kUnsupported, "smollm",
       [](GgufBuilder& b) {
         b.string("tokenizer.ggml.model", "gpt2");
         b.strings("tokenizer.ggml.tokens", kTokens);
       }},
      {"pre", ErrorCode::kUnsupported, "\"odd\"",
       [](GgufBuilder& b) {
         b.string("tokenizer.ggml.model", "gpt2");
         b.string("tokenizer.ggml.pre", "odd");
         b.strings("tokenizer.ggml.tokens", kTokens);
       }},
      {"merge", ErrorCode::kCorrupt, "merge 0",
       [&](GgufBuilder& b) {
         gpt2(b);
         b.strings("tokenizer.ggml.merges", {"b a"});
       }},
      {"merge form", ErrorCode::kCorrupt, "merge 1",
       [&](GgufBuilder& b) {
         gpt2(b);
         b.strings("tokenizer.ggml.merges", {"a b", " a"});
       }},
      {"types", ErrorCode::kCorrupt, "token_type",
       [&](GgufBuilder& b) {
         gpt2(b);
         b.integers("tokenizer.ggml.token_type", {1});
       }},
      {"bos", ErrorCode::kCorrupt, "bos_token_id",
       [&](GgufBuilder& b) {
         gpt2(b);
         b.integer("tokenizer.ggml.bos_token_id", 4);
       }},
      {"eos", ErrorCode::kCorrupt, "eos_token_id",
       [&](GgufBuilder& b) {
         gpt2(b);
         b.integer("tokenizer.ggml.eos_token_id", 4000000000u);
       }},
      {"scores", ErrorCode::kCorrupt, "scores",
       [](GgufBuilder& b) {
         b.string("tokenizer.ggml.model", "llama");
         b.strings("tokenizer.ggml.tokens", kTokens);
       }},
  };
  for (const Fault& fault : faults) {
    GgufBuilder b;
    fault.add(b);
    const auto tokenizer = load(b);
    ASSERT_FALSE(tokenizer) << fault.name;
    EXPECT_EQ(tokenizer.error().code, fault.code) << fault.name;
    EXPECT_NE(tokenizer.error().to_string().find(fault.named), std::string::npos) << tokenizer.error().to_string();
  }
}

TEST(TokenizerGguf, OddValuesDoNotCrash) {
  GgufBuilder b;
  b.string("tokenizer.ggml.model", "llama");
  b.strings("tokenizer.ggml.tokens", {"", "\xFF\xFE", "a", "a", std::string(3000, 'x'), "<0xZZ>"});
  b.floats("tokenizer.ggml.scores", {NAN, INFINITY, -INFINITY, 1, 2, 3});
  b.integers("tokenizer.ggml.token_type", {3, 3, -5, 77, 3, 6});
  const auto tokenizer = load(b);
  if (!tokenizer) return;  // an over-long control token may be refused
  (*tokenizer)->decode((*tokenizer)->encode("aa \xFF x"));
}

}  // namespace
}  // namespace ullage::text
