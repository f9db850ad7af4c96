// The regular expressions of pre-tokenizers, run by PCRE2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"

namespace ullage::text {

// The patterns of the families Ullage serves, as their tokenizer.json files spell them. These scan in linear time.
extern const std::string_view kGpt2Pattern;
extern const std::string_view kLlama3Pattern;
extern const std::string_view kQwen2Pattern;
extern const std::string_view kDigitPattern;  // one digit at a time

// A part of a text: [begin, end) in bytes, and whether the pattern matched it or it lies between two matches.
struct SplitSpan {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

// Per call of encode(): PCRE2's match data, and what is left of the work that a file's own pattern may do.
class RegexScratch {
 public:
  explicit RegexScratch(size_t text_bytes);
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class SplitRegex;
  struct State;
  std::unique_ptr<State> state_;
};

// Immutable, movable; any thread, each with its own scratch.
class SplitRegex {
 public:
  // `pattern` is spelled for Oniguruma, which Hugging Face's tokenizers use; what PCRE2 reads differently is rewritten.
  // A pattern that is not one of the above is a stranger: it runs under a budget of steps (counted, not timed, so that
  // the same text gives the same tokens on any machine).
  static Result<SplitRegex> compile(std::string_view pattern, std::string_view where);
  // Matches the string itself.
  static Result<SplitRegex> literal(std::string_view string, std::string_view where);
  SplitRegex(SplitRegex&&) noexcept;
  SplitRegex& operator=(SplitRegex&&) noexcept;
  ~SplitRegex();

  // Cuts all of `text` into spans, in order, none empty. When the budget is used up, or PCRE2 gives up, the rest is one
  // unmatched span. REQUIRES: valid UTF-8.
  void split(std::string_view text, RegexScratch& scratch, std::vector<SplitSpan>& spans) const;

 private:
  struct State;
  explicit SplitRegex(std::unique_ptr<State> state);
  static Result<SplitRegex> make(std::string pattern, uint32_t options, bool is_known, std::string_view where);
  std::unique_ptr<State> state_;
};

// The pattern as PCRE2 must be given it; an Error names what cannot be said.
Result<std::string> to_pcre2_spelling(std::string_view pattern, std::string_view where);

}  // namespace ullage::text
