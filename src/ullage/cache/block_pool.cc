#include "ullage/cache/block_pool.h"

#include <limits>

#include "ullage/base/check.h"

namespace ullage::cache {
namespace {

size_t at(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

BlockPool::BlockPool(int64_t num_blocks) {
  ULLAGE_CHECK(num_blocks >= 1 && num_blocks <= std::numeric_limits<int32_t>::max());
  const auto n = static_cast<int32_t>(num_blocks);
  prev_.resize(at(n));
  next_.resize(at(n));
  ref_counts_.assign(at(n), 0);
  for (int32_t i = 0; i < n; ++i) {
    prev_[at(i)] = i == 0 ? n - 1 : i - 1;
    next_[at(i)] = i == n - 1 ? 0 : i + 1;
  }
  num_free_ = num_blocks - 1;
}

BlockId BlockPool::take_first() {
  ULLAGE_CHECK(num_free_ > 0);
  const BlockId block = first_free();
  add_ref(block);
  return block;
}

void BlockPool::add_ref(BlockId block) {
  const int32_t b = block.value;
  ULLAGE_DCHECK(b > 0 && b < num_blocks());
  if (ref_counts_[at(b)]++ > 0) return;
  ULLAGE_CHECK(prev_[at(b)] != kUnlinked);
  next_[at(prev_[at(b)])] = next_[at(b)];
  prev_[at(next_[at(b)])] = prev_[at(b)];
  prev_[at(b)] = next_[at(b)] = kUnlinked;
  --num_free_;
}

bool BlockPool::drop_ref(BlockId block) {
  ULLAGE_CHECK(ref_counts_[at(block.value)] > 0);
  return --ref_counts_[at(block.value)] == 0;
}

void BlockPool::put_first(BlockId block) { link(block.value, 0, next_[0]); }
void BlockPool::put_last(BlockId block) { link(block.value, prev_[0], 0); }

void BlockPool::link(int32_t block, int32_t prev, int32_t next) {
  ULLAGE_CHECK(block > 0 && ref_counts_[at(block)] == 0 && prev_[at(block)] == kUnlinked);
  prev_[at(block)] = prev;
  next_[at(block)] = next;
  next_[at(prev)] = block;
  prev_[at(next)] = block;
  ++num_free_;
}

void BlockPool::check_invariants() const {
  int64_t num_linked = 0;
  for (int32_t b = next_[0], prev = 0; b != 0; prev = b, b = next_[at(b)]) {
    ULLAGE_CHECK(b > 0 && b < num_blocks() && prev_[at(b)] == prev && ref_counts_[at(b)] == 0);
    ULLAGE_CHECK(++num_linked < num_blocks());
  }
  ULLAGE_CHECK(num_linked == num_free_);
  ULLAGE_CHECK_MSG(ref_counts_[0] == 0, "the null block has no holder");
  for (int32_t b = 1; b < num_blocks(); ++b)
    ULLAGE_CHECK_MSG((ref_counts_[at(b)] == 0) == (prev_[at(b)] != kUnlinked), "a block is free, or it has holders");
}

}  // namespace ullage::cache
