// Tokens that are found in a text as they are spelled, before any cutting and merging: <|im_end|>, </s>, <tool_call>.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/result.h"
#include "ullage/text/tokenizer.h"

namespace ullage::text {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool is_special = false;      // control; otherwise part of the language, found wherever it stands
  bool is_normalized = false;   // looked for after normalising, itself normalised
  bool strips_left = false;     // swallows white space before it
  bool strips_right = false;    // and after it
  bool is_single_word = false;  // only where no word character touches it
};

struct AddedTokenMatch {
  size_t begin = 0;
  size_t end = 0;
  TokenId id = 0;
};

// Which of the special tokens may be found.
struct SpecialFilter {
  bool everywhere = true;
  std::span<const TextRange> ranges = {};  // ascending; else only wholly inside one of these
};

// Immutable once built; any thread. Finding is one table look-up a byte, and O(longest token) where one may begin.
class AddedTokenFinder {
 public:
  // Tokens with the same spelling: the first counts. Empty spellings are never found. Over-long ones are an Error.
  static Result<AddedTokenFinder> make(std::vector<AddedToken> tokens, std::string_view where);

  // From left to right the longest allowed token at each place, as Hugging Face's tokenizers do. REQUIRES: valid UTF-8.
  std::vector<AddedTokenMatch> find(std::string_view text, const SpecialFilter& filter) const;
  bool empty() const { return tokens_.empty(); }

 private:
  const AddedToken* longest_at(std::string_view text, size_t at, const SpecialFilter& filter,
                               size_t& range_index) const;

  std::vector<AddedToken> tokens_;  // ascending by spelling
  std::array<bool, 256> starts_{};  // the first bytes of all spellings
};

}  // namespace ullage::text
