// Where keys and values lie, and how they are written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ullage/base/ids.h"
#include "ullage/cpu/memory_ledger.h"
#include "ullage/model/dtype.h"

namespace ullage::cpu {

// One allocation: [num_layers][num_blocks][num_kv_heads][keys [head_dim, block_size], values [block_size, head_dim]].
// Keys are transposed so that attention reads one element of consecutive keys as one vector (attention_impl.h).
class KvPool {
 public:
  struct Shape {
    int64_t num_layers = 0;
    int64_t num_blocks = 0;
    int64_t num_kv_heads = 0;
    int64_t head_dim = 0;
    int64_t block_size = 0;
    model::DType dtype = model::DType::kBF16;
  };
  static Result<KvPool> create(const Shape& shape, MemoryLedger* ledger);

  // Bytes of one block in one layer.
  int64_t block_bytes() const { return shape_.num_kv_heads * head_bytes(); }
  int64_t pool_bytes() const { return shape_.num_layers * shape_.num_blocks * block_bytes(); }
  const Shape& shape() const { return shape_; }

  // The head's keys and values in block 0 of a layer; those of block b lie b * block_bytes() further.
  const std::byte* keys(int64_t layer, int64_t kv_head) const { return layer_base(layer) + kv_head * head_bytes(); }
  const std::byte* values(int64_t layer, int64_t kv_head) const { return keys(layer, kv_head) + head_bytes() / 2; }

  // Stores one token's keys and values of all heads ([num_kv_heads, head_dim] each), rounded to the pool's dtype.
  void write(int64_t layer, BlockId block, int64_t slot, const float* keys, const float* values);
  // Copies the first `num_slots` slots.
  void copy(int64_t layer, BlockId source, BlockId destination, int64_t num_slots);

 private:
  int64_t element_bytes() const { return shape_.dtype == model::DType::kF32 ? 4 : 2; }
  int64_t head_bytes() const { return 2 * shape_.head_dim * shape_.block_size * element_bytes(); }
  std::byte* layer_base(int64_t layer) const { return base_ + layer * shape_.num_blocks * block_bytes(); }

  Shape shape_;
  std::byte* base_ = nullptr;
};

}  // namespace ullage::cpu
