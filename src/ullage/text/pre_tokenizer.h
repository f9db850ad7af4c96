// Cuts a text into the pieces inside which tokens are merged.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/text/split_regex.h"

namespace ullage::text {

// What becomes of the pattern's matches; names as in tokenizer.json.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
// When SentencePiece's mark for a space is put before the text.
enum class PrependScheme { kNever, kFirst, kAlways };

struct PreTokenizerStep {
  enum class Kind { kSplit, kPrefixSpace, kMetaspace };
  Kind kind = Kind::kSplit;
  // kSplit
  std::vector<SplitRegex> regex;  // exactly one
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  // kMetaspace
  std::string replacement;
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = false;
};

// A piece, and whether it begins where the whole text begins.
struct Piece {
  std::string_view text;
  bool is_first = false;
};

// Owns the rewritten pieces of one call of encode().
using PieceArena = std::deque<std::string>;

// Replaces `pieces` by what the steps make of them. REQUIRES: valid UTF-8.
void pre_tokenize(const std::vector<PreTokenizerStep>& steps, RegexScratch& scratch, PieceArena& arena,
                  std::vector<Piece>& pieces);

}  // namespace ullage::text
