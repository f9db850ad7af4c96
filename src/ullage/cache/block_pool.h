// The pool of blocks: who is free, in which order they are given out, and how many hold each.
//
// Order and rules are those of vLLM V1's BlockPool and FreeKVCacheBlockQueue: one doubly linked list through all blocks
// without a holder, taken from the left. Whoever frees decides the end: blocks without a key go left (they are the next
// to be taken), blocks with one go right, so that the list is least recently used first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ullage/base/ids.h"

namespace ullage::cache {

// Blocks 0 .. num_blocks - 1. Block 0 is the null block: it stands for "no block here" in a table, is never given out,
// and does not count as usable. One owner thread. Every call but the constructor is O(1) and allocates nothing.
class BlockPool {
 public:
  // All blocks but the null block are free, in order of id. REQUIRES: num_blocks >= 1.
  explicit BlockPool(int64_t num_blocks);

  int64_t num_blocks() const { return static_cast<int64_t>(ref_counts_.size()); }
  int64_t num_free() const { return num_free_; }
  int32_t ref_count(BlockId block) const { return ref_counts_[static_cast<size_t>(block.value)]; }

  // Takes the leftmost free block, with one holder. REQUIRES: num_free() > 0.
  BlockId take_first();
  // One more holder; a block without any leaves the free list, wherever it is in it.
  void add_ref(BlockId block);
  // One holder less. True when that was the last: the caller must then put the block back by put_first or put_last.
  [[nodiscard]] bool drop_ref(BlockId block);
  void put_first(BlockId block);
  void put_last(BlockId block);

  // Walks the free list from the left: first_free(), next_free(b), ...; kNullBlock ends it.
  BlockId first_free() const { return BlockId(next_[0]); }
  BlockId next_free(BlockId block) const { return BlockId(next_[static_cast<size_t>(block.value)]); }
  bool is_free(BlockId block) const { return prev_[static_cast<size_t>(block.value)] != kUnlinked; }

  // Stops the program if the list and the counts disagree. O(num_blocks).
  void check_invariants() const;

 private:
  static constexpr int32_t kUnlinked = -1;
  void link(int32_t block, int32_t prev, int32_t next);

  // The list is circular, and the null block's links are its two ends: [num_blocks] each.
  std::vector<int32_t> prev_;
  std::vector<int32_t> next_;
  std::vector<int32_t> ref_counts_;  // [num_blocks]
  int64_t num_free_ = 0;
};

}  // namespace ullage::cache
