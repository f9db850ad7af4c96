// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/result.h"

namespace ullage::model {
class Checkpoint;
}

namespace ullage::text {

// [begin, end) in bytes of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

struct EncodeOptions {
  bool add_special_tokens = true;  // BOS (and EOS) as the model's tokenizer adds them
  // Where special tokens written out in the text ("<|im_end|>") become that token: everywhere, or only wholly inside
  // the given ranges (a chat template's own text, so that a user's message cannot end its own turn).
  bool parse_special_everywhere = true;
  std::span<const TextRange> special_ranges = {};
};

// Immutable; any thread. Invalid UTF-8 in the text is replaced by U+FFFD first (as Hugging Face's tokenizers do).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  // The token's own bytes, which may be part of a UTF-8 character. Empty for special tokens when `skip_special`.
  // `is_first`: SentencePiece drops the first token's leading space. Ids out of range give no bytes.
  virtual std::string token_bytes(TokenId token, bool skip_special, bool is_first = false) const = 0;
  // The token as the vocabulary spells it (for logprobs' "token" fields of special tokens and /tokenize).
  virtual std::string token_name(TokenId token) const = 0;
  virtual bool is_special(TokenId token) const = 0;
  virtual int64_t vocab_size() const = 0;
  // Bytes of the longest token's text: so many tokens cannot spell more than so many times this.
  virtual int64_t max_token_bytes() const = 0;
  virtual TokenId bos_token() const = 0;  // -1 = none
  virtual std::span<const TokenId> eos_tokens() const = 0;
  // Id of a token spelled exactly so; -1 = none.
  virtual TokenId find_token(std::string_view name) const = 0;

  // The text of a run of tokens; invalid UTF-8 is replaced by U+FFFD.
  std::string decode(std::span<const TokenId> tokens, bool skip_special = true) const;
};

// From a GGUF's metadata, or the directory's tokenizer.json (and tokenizer_config.json).
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const model::Checkpoint& checkpoint);
// From the text of a tokenizer.json; `config_text` is tokenizer_config.json's, may be empty.
Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(std::string_view text, std::string_view config_text,
                                                       std::string_view where);

// Turns a stream of tokens into text that never ends in half a UTF-8 character. One request's; one thread.
class StreamDecoder {
 public:
  // `is_first` false: the tokens continue a text, so that SentencePiece keeps the first one's leading space.
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special, bool is_first = true)
      : tokenizer_(tokenizer), skip_special_(skip_special), is_first_(is_first) {}
  // The text that became certain with this token; may be empty.
  std::string push(TokenId token);
  // The rest at the end of the stream, invalid bytes replaced by U+FFFD.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_ = true;
  bool is_first_ = true;
  std::string pending_;  // bytes of an unfinished character; at most 3
};

}  // namespace ullage::text
