#include "ullage/text/scored_merges.h"

#include <algorithm>

#include "ullage/text/utf8.h"

namespace ullage::text {
namespace {

struct Candidate {
  float score;
  int32_t left;
  int32_t right;
  size_t length;  // of the join; tells a stale candidate
  TokenId id;
};

}  // namespace

std::vector<ScoredSymbol> merge_scored(const Vocabulary& vocabulary, const std::vector<float>& scores,
                                       size_t max_token_bytes, std::string_view text) {
  std::vector<ScoredSymbol> symbols;
  for (size_t at = 0; at < text.size();) {
    const auto length = static_cast<size_t>(utf8_char_at(text, at).length);
    symbols.push_back({at, length, vocabulary.find(text.substr(at, length))});
    at += length;
  }
  const auto n = static_cast<int32_t>(symbols.size());
  std::vector<int32_t> previous(symbols.size());
  std::vector<int32_t> next(symbols.size());
  for (int32_t i = 0; i < n; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
  }
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  };
  std::vector<Candidate> heap;
  const auto push = [&](int32_t left, int32_t right) {
    if (left < 0 || right >= n) return;
    const size_t length = symbols[left].length + symbols[right].length;
    if (length > max_token_bytes) return;
    const TokenId id = vocabulary.find(text.substr(symbols[left].begin, length));
    if (id == kNoToken || scores[static_cast<size_t>(id)] == kNeverMerged) return;
    heap.push_back({scores[static_cast<size_t>(id)], left, right, length, id});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (int32_t i = 0; i + 1 < n; ++i) push(i, i + 1);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate top = heap.back();
    heap.pop_back();
    ScoredSymbol& left = symbols[top.left];
    ScoredSymbol& right = symbols[top.right];
    if (left.length == 0 || right.length == 0 || left.length + right.length != top.length) continue;
    left.length = top.length;
    left.id = top.id;
    right.length = 0;
    next[top.left] = next[top.right];
    if (next[top.left] < n) previous[next[top.left]] = top.left;
    push(previous[top.left], top.left);
    push(top.left, next[top.left]);
  }
  std::erase_if(symbols, [](const ScoredSymbol& s) { return s.length == 0; });
  return symbols;
}

}  // namespace ullage::text
