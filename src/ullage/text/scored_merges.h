// SentencePiece's byte-pair encoding: of two neighbours whose join is a token, the join with the highest score goes
// first.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ullage/text/vocabulary.h"

namespace ullage::text {

// The score of control, unknown and byte tokens: text that is spelled like them is no reason to merge.
inline constexpr float kNeverMerged = -3e38f;

// A part of the text that is one token, or one character that is none.
struct ScoredSymbol {
  size_t begin = 0;
  size_t length = 0;
  TokenId id = kNoToken;
};

// Equal scores: leftmost first. O(n log n). `scores` is [vocabulary.size()]; joins longer than `max_token_bytes` are
// not looked up. REQUIRES: valid UTF-8 of less than 2 GiB.
std::vector<ScoredSymbol> merge_scored(const Vocabulary& vocabulary, const std::vector<float>& scores,
                                       size_t max_token_bytes, std::string_view text);

}  // namespace ullage::text
