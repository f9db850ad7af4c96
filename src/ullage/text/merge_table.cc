#include "ullage/text/merge_table.h"

#include <algorithm>
#include <bit>

namespace ullage::text {
namespace {

// Up to here a scan for the lowest rank beats the heap.
constexpr size_t kScanLimit = 40;

void merge_by_scan(const MergeTable& table, std::vector<TokenId>& symbols, MergeScratch& scratch) {
  size_t n = symbols.size();
  std::vector<int32_t>& ranks = scratch.ranks;
  std::vector<TokenId>& results = scratch.results;
  ranks.resize(n);
  results.resize(n);
  const auto look_up = [&](size_t i) {
    const MergeTable::Hit hit = table.find(symbols[i], symbols[i + 1]);
    ranks[i] = hit.rank;
    results[i] = hit.result;
  };
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == MergeTable::kNoRank) break;
    symbols[best] = results[best];
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      results[i] = results[i + 1];
    }
    --n;
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
  }
  symbols.resize(n);
}

void merge_by_heap(const MergeTable& table, std::vector<TokenId>& symbols, MergeScratch& scratch) {
  using Candidate = MergeScratch::Candidate;
  constexpr TokenId kGone = -1;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto n = static_cast<int32_t>(symbols.size());
  std::vector<Candidate>& heap = scratch.heap;
  std::vector<int32_t>& previous = scratch.previous;
  std::vector<int32_t>& next = scratch.next;
  heap.clear();
  previous.resize(symbols.size());
  next.resize(symbols.size());
  const auto candidate_at = [&](int32_t i) {
    const int32_t j = next[i];
    return Candidate{table.find(symbols[i], symbols[j]).rank, i, symbols[i], symbols[j]};
  };
  const auto push = [&](int32_t i) {
    if (i < 0 || next[i] >= n) return;
    const Candidate candidate = candidate_at(i);
    if (candidate.rank == MergeTable::kNoRank) return;
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (int32_t i = 0; i < n; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
  }
  for (int32_t i = 0; i + 1 < n; ++i) {
    const Candidate candidate = candidate_at(i);
    if (candidate.rank != MergeTable::kNoRank) heap.push_back(candidate);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate top = heap.back();
    heap.pop_back();
    const int32_t i = top.position;
    const int32_t j = symbols[i] == kGone ? n : next[i];
    // Stale: one of the two has since become part of another token.
    if (j >= n || symbols[i] != top.left || symbols[j] != top.right) continue;
    symbols[i] = table.find(top.left, top.right).result;
    symbols[j] = kGone;
    next[i] = next[j];
    if (next[i] < n) previous[next[i]] = i;
    push(previous[i]);
    push(i);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), kGone), symbols.end());
}

}  // namespace

MergeTable::MergeTable(const std::vector<Merge>& merges) {
  slots_.resize(std::bit_ceil(merges.size() * 2 + 2));
  mask_ = slots_.size() - 1;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t key = key_of(merges[rank].left, merges[rank].right);
    size_t i = slot_of(key);
    while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
    slots_[i] = {key, {static_cast<int32_t>(rank), merges[rank].result}};
  }
}

void merge_symbols(const MergeTable& table, std::vector<TokenId>& symbols, MergeScratch& scratch) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kScanLimit)
    merge_by_scan(table, symbols, scratch);
  else
    merge_by_heap(table, symbols, scratch);
}

}  // namespace ullage::text
