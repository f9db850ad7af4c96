#include "ullage/text/added_tokens.h"

#include <algorithm>

#include <fmt/format.h>
#include <utf8proc.h>

#include "ullage/text/utf8.h"

namespace ullage::text {
namespace {

// Bounds the work at each byte; the longest in use have some 50 bytes.
constexpr size_t kMaxContentBytes = 1024;

size_t previous_char(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

bool is_word_char(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

bool touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t at = previous_char(text, begin);
    if (is_word_char(next_code_point(text, at))) return true;
  }
  if (end < text.size()) {
    size_t at = end;
    if (is_word_char(next_code_point(text, at))) return true;
  }
  return false;
}

size_t skip_space_left(std::string_view text, size_t begin, size_t floor) {
  while (begin > floor) {
    const size_t at = previous_char(text, begin);
    size_t after = at;
    if (!is_white_space(next_code_point(text, after))) break;
    begin = at;
  }
  return std::max(begin, floor);
}

size_t skip_space_right(std::string_view text, size_t end) {
  while (end < text.size()) {
    size_t after = end;
    if (!is_white_space(next_code_point(text, after))) break;
    end = after;
  }
  return end;
}

}  // namespace

Result<AddedTokenFinder> AddedTokenFinder::make(std::vector<AddedToken> tokens, std::string_view where) {
  AddedTokenFinder finder;
  for (AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    if (token.content.size() > kMaxContentBytes) {
      return Error{ErrorCode::kTooLarge,
                   fmt::format("the added token {} has {} bytes, over the limit of {}", token.id, token.content.size(),
                               kMaxContentBytes),
                   std::string(where)};
    }
    finder.starts_[static_cast<uint8_t>(token.content[0])] = true;
    finder.tokens_.push_back(std::move(token));
  }
  std::stable_sort(finder.tokens_.begin(), finder.tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  const auto same = [](const AddedToken& a, const AddedToken& b) { return a.content == b.content; };
  finder.tokens_.erase(std::unique(finder.tokens_.begin(), finder.tokens_.end(), same), finder.tokens_.end());
  return finder;
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, size_t at, const SpecialFilter& filter,
                                               size_t& range_index) const {
  // The tokens that agree with the text so far are a run of the sorted list; each byte narrows it.
  const AddedToken* best = nullptr;
  auto low = tokens_.begin();
  auto high = tokens_.end();
  for (size_t n = 0; at + n < text.size() && low != high; ++n) {
    const auto byte = static_cast<uint8_t>(text[at + n]);
    const auto at_n = [n](const AddedToken& t) {
      return n < t.content.size() ? static_cast<int>(static_cast<uint8_t>(t.content[n])) : -1;
    };
    low = std::partition_point(low, high, [&](const AddedToken& t) { return at_n(t) < byte; });
    high = std::partition_point(low, high, [&](const AddedToken& t) { return at_n(t) == byte; });
    if (low == high || low->content.size() != n + 1) continue;
    if (low->is_special && !filter.everywhere) {
      while (range_index < filter.ranges.size() && filter.ranges[range_index].end <= at) ++range_index;
      if (range_index == filter.ranges.size()) continue;
      const TextRange& range = filter.ranges[range_index];
      if (at < range.begin || at + n + 1 > range.end) continue;
    }
    best = &*low;
  }
  return best;
}

std::vector<AddedTokenMatch> AddedTokenFinder::find(std::string_view text, const SpecialFilter& filter) const {
  std::vector<AddedTokenMatch> matches;
  if (tokens_.empty()) return matches;
  size_t done = 0;         // the end of the last match, with the space it swallowed
  size_t range_index = 0;  // the first range that ends after `at`
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token =
        starts_[static_cast<uint8_t>(text[at])] ? longest_at(text, at, filter, range_index) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->content.size();
    at = end;
    if (token->is_single_word && touches_word(text, begin, end)) continue;
    // Swallowed space is not searched for overlaps: a token made of spaces may be found inside it, as the reference
    // does.
    if (token->strips_left) begin = skip_space_left(text, begin, std::min(done, begin));
    if (token->strips_right) end = skip_space_right(text, end);
    matches.push_back({begin, end, token->id});
    done = end;
  }
  return matches;
}

}  // namespace ullage::text
