// The one tokenizer there is: byte-pair encoding, put together from parts that the readers of files describe.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ullage/text/added_tokens.h"
#include "ullage/text/merge_table.h"
#include "ullage/text/normalizer.h"
#include "ullage/text/pre_tokenizer.h"
#include "ullage/text/tokenizer.h"
#include "ullage/text/vocabulary.h"

namespace ullage::text {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's spelling of a space

enum class BpeKind {
  kBytes,   // symbols are bytes, in GPT-2's alphabet; merges by rank
  kChars,   // symbols are characters; merges by rank
  kScored,  // symbols are characters; merges by the score of their result, as SentencePiece
};

struct TokenizerParts {
  BpeKind kind = BpeKind::kBytes;
  Vocabulary vocabulary;
  std::vector<AddedToken> added;  // their ids are in the vocabulary
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<Merge> merges;   // ids are in the vocabulary
  std::vector<float> scores;   // kScored: [vocabulary.size()]
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool byte_fallback = false;  // characters outside the vocabulary become <0xXX> tokens
  bool fuse_unknown = false;
  TokenId unknown = kNoToken;   // without one, what is unknown is left out
  std::vector<TokenId> prefix;  // what add_special_tokens puts before
  std::vector<TokenId> suffix;  // and after
  TokenId bos = kNoToken;
  std::vector<TokenId> eos;
  bool strips_first_space = false;  // decoding drops the space that encoding put before the text
};

// Immutable; any thread. encode() takes linear time but for the merging of long pieces (O(n log n)).
class BpeTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<BpeTokenizer>> make(TokenizerParts parts, std::string_view where);

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string token_bytes(TokenId token, bool skip_special, bool is_first) const override;
  std::string token_name(TokenId token) const override { return std::string(parts_.vocabulary.name(token)); }
  bool is_special(TokenId token) const override {
    return parts_.vocabulary.contains(token) && special_[static_cast<size_t>(token)];
  }
  int64_t vocab_size() const override { return parts_.vocabulary.size(); }
  int64_t max_token_bytes() const override { return static_cast<int64_t>(max_text_bytes_); }
  TokenId bos_token() const override { return parts_.bos; }
  std::span<const TokenId> eos_tokens() const override { return parts_.eos; }
  TokenId find_token(std::string_view name) const override { return parts_.vocabulary.find(name); }

 private:
  struct Scratch;
  BpeTokenizer() = default;
  Result<void> find_added(std::string_view where);
  void find_bytes();
  void find_whole_words();
  void encode_raw(std::string_view text, bool is_first, const SpecialFilter& filter, Scratch& scratch,
                  std::vector<TokenId>& out) const;
  void encode_normalized(std::string_view text, bool is_first, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void append_char(std::string_view c, TokenId& pending_unknown, std::vector<TokenId>& symbols) const;
  void append_unknown(TokenId& pending_unknown, std::vector<TokenId>& symbols) const;

  TokenizerParts parts_;  // merges and added are moved on into the tables below
  MergeTable merges_;
  AddedTokenFinder raw_added_;         // looked for in the text as it is
  AddedTokenFinder normalized_added_;  // looked for once it is normalised
  // When only ranges may hold special tokens, all special ones are looked for in the text as it is: ranges are its.
  AddedTokenFinder raw_added_in_ranges_;
  AddedTokenFinder normalized_added_in_ranges_;
  std::vector<std::string> bytes_;        // [vocab_size] what each token decodes to
  std::vector<bool> special_;             // [vocab_size]
  std::vector<bool> is_added_;            // [vocab_size]
  std::array<TokenId, 256> byte_ids_{};   // kBytes: the token of a single byte; else <0xXX>; or kNoToken
  std::array<TokenId, 128> ascii_ids_{};  // kChars: the token of an ASCII character
  // kBytes: pieces that merging would join to one token (or ignore_merges: all tokens). Views into bytes_.
  std::unordered_map<std::string_view, TokenId> whole_words_;
  size_t max_token_bytes_ = 0;  // of a spelling
  size_t max_text_bytes_ = 0;   // of bytes_
};

}  // namespace ullage::text
