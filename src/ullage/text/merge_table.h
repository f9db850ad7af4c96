// The merges of a byte-pair encoding: which two neighbouring tokens become which, and in what order of preference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ullage/base/ids.h"

namespace ullage::text {

struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
};

// Immutable once built; any thread. A look-up is one probe of a flat table, nearly always.
class MergeTable {
 public:
  static constexpr int32_t kNoRank = INT32_MAX;
  struct Hit {
    int32_t rank = kNoRank;  // lower merges first
    TokenId result = 0;
  };

  MergeTable() : MergeTable(std::vector<Merge>{}) {}
  // Rank is position. A pair met twice has its last rank, as in Hugging Face's tokenizers.
  explicit MergeTable(const std::vector<Merge>& merges);

  Hit find(TokenId left, TokenId right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = slot_of(key);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key) return slot.hit;
      if (slot.key == kEmpty) return {};
    }
  }

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Hit hit;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no pair: ids are not negative
  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    key = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15u;
    return static_cast<size_t>(key ^ (key >> 32)) & mask_;
  }

  std::vector<Slot> slots_;  // power of two, at most half full
  size_t mask_ = 0;
};

// What merging needs besides the symbols; kept by the caller so that a text's words share it.
struct MergeScratch {
  struct Candidate {
    int32_t rank;
    int32_t position;
    TokenId left;
    TokenId right;
  };
  std::vector<int32_t> ranks;
  std::vector<TokenId> results;
  std::vector<Candidate> heap;
  std::vector<int32_t> previous;
  std::vector<int32_t> next;
};

// Merges neighbours in `symbols`, the lowest rank first and leftmost among equals, until none is left.
// O(n^2) moves for a few symbols, O(n log n) for many.
void merge_symbols(const MergeTable& table, std::vector<TokenId>& symbols, MergeScratch& scratch);

}  // namespace ullage::text
