#include "ullage/text/merge_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <rapidcheck.h>

#include "ullage/base/random.h"

namespace ullage::text {
namespace {

// The definition, word for word: while any neighbours can merge, merge the leftmost pair of the lowest rank.
std::vector<TokenId> merge_by_definition(const std::vector<Merge>& merges, std::vector<TokenId> symbols) {
  while (true) {
    size_t best = symbols.size();
    size_t best_rank = merges.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t rank = 0; rank < merges.size(); ++rank) {
        if (merges[rank].left != symbols[i] || merges[rank].right != symbols[i + 1] || rank >= best_rank) continue;
        best = i;
        best_rank = rank;
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = merges[best_rank].result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(MergeTable, MergesAsDefined) {
  rc::check("scan and heap equal the definition", [](uint64_t seed) {
    RandomStream random(seed);
    // Tokens 0 to 3 are letters; each merge makes the next token of two earlier ones.
    std::vector<Merge> merges;
    const auto num_merges = static_cast<TokenId>(random.below(30));
    for (TokenId i = 0; i < num_merges; ++i) {
      const Merge merge{static_cast<TokenId>(random.below(4 + i)), static_cast<TokenId>(random.below(4 + i)), 4 + i};
      const auto same = [&](const Merge& m) { return m.left == merge.left && m.right == merge.right; };
      if (std::none_of(merges.begin(), merges.end(), same)) merges.push_back(merge);
    }
    std::vector<TokenId> symbols(random.below(120));
    for (TokenId& s : symbols) s = static_cast<TokenId>(random.below(4));
    const std::vector<TokenId> expected = merge_by_definition(merges, symbols);
    MergeScratch scratch;
    merge_symbols(MergeTable(merges), symbols, scratch);
    RC_ASSERT(symbols == expected);
  });
}

TEST(MergeTable, AMillionEqualLettersTakeNoQuadraticTime) {
  std::vector<Merge> merges;
  for (TokenId i = 0; i < 10; ++i) merges.push_back({i, i, i + 1});
  std::vector<TokenId> symbols(1 << 20, 0);
  MergeScratch scratch;
  merge_symbols(MergeTable(merges), symbols, scratch);  // quadratic time would be minutes: ctest's limit tells
  EXPECT_EQ(symbols, std::vector<TokenId>(1 << 10, 10));
}

TEST(MergeTable, APairMetTwiceHasItsLastRank) {
  const MergeTable table({{1, 2, 3}, {2, 1, 4}, {1, 2, 5}});
  EXPECT_EQ(table.find(1, 2).rank, 2);
  EXPECT_EQ(table.find(1, 2).result, 5);
  EXPECT_EQ(table.find(2, 2).rank, MergeTable::kNoRank);
}

}  // namespace
}  // namespace ullage::text
