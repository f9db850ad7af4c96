#include "ullage/cpu/kv_pool.h"

#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "ullage/model/half.h"

namespace ullage::cpu {
namespace {

// What a vector may read past the last value (kernels.h).
constexpr int64_t kTailBytes = 64;

struct ToF32 {
  using Stored = float;
  static float convert(float x) { return x; }
};
struct ToF16 {
  using Stored = uint16_t;
  static uint16_t convert(float x) { return model::f32_to_f16(x); }
};
struct ToBF16 {
  using Stored = uint16_t;
  static uint16_t convert(float x) { return model::f32_to_bf16(x); }
};

template <class To>
void write_head(std::byte* head, int64_t head_dim, int64_t block_size, int64_t slot, const float* keys,
                const float* values) {
  auto* stored_keys = reinterpret_cast<typename To::Stored*>(head);
  auto* stored_values = stored_keys + head_dim * block_size + slot * head_dim;
  for (int64_t d = 0; d < head_dim; ++d) stored_keys[d * block_size + slot] = To::convert(keys[d]);
  for (int64_t d = 0; d < head_dim; ++d) stored_values[d] = To::convert(values[d]);
}

}  // namespace

Result<KvPool> KvPool::create(const Shape& shape, MemoryLedger* ledger) {
  if (shape.dtype != model::DType::kF32 && shape.dtype != model::DType::kF16 && shape.dtype != model::DType::kBF16) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("found KV cache type {}; use BF16, F16 or F32", model::info(shape.dtype).name),
                 "kv-cache-dtype"};
  }
  if (shape.block_size < 1 || shape.num_blocks < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("found {} blocks of {} tokens; at least one of each is needed", shape.num_blocks, shape.block_size),
        "num_blocks"};
  }
  KvPool pool;
  pool.shape_ = shape;
  const int64_t bytes_a_block = pool.block_bytes() * shape.num_layers;
  if (shape.num_blocks > std::numeric_limits<int64_t>::max() / 2 / bytes_a_block) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("{} blocks of {} bytes are too many", shape.num_blocks, bytes_a_block), "num_blocks"};
  }
  ULLAGE_TRY(pool.base_, ledger->allocate(MemoryRole::kKvPool, pool.pool_bytes(), kTailBytes));
  return pool;
}

void KvPool::write(int64_t layer, BlockId block, int64_t slot, const float* keys, const float* values) {
  std::byte* head = layer_base(layer) + int64_t{block.value} * block_bytes();
  for (int64_t h = 0; h < shape_.num_kv_heads; ++h) {
    switch (shape_.dtype) {
      case model::DType::kF32:
        write_head<ToF32>(head, shape_.head_dim, shape_.block_size, slot, keys, values);
        break;
      case model::DType::kF16:
        write_head<ToF16>(head, shape_.head_dim, shape_.block_size, slot, keys, values);
        break;
      default:
        write_head<ToBF16>(head, shape_.head_dim, shape_.block_size, slot, keys, values);
        break;
    }
    head += head_bytes();
    keys += shape_.head_dim;
    values += shape_.head_dim;
  }
}

void KvPool::copy(int64_t layer, BlockId source, BlockId destination, int64_t num_slots) {
  const std::byte* from = layer_base(layer) + int64_t{source.value} * block_bytes();
  std::byte* to = layer_base(layer) + int64_t{destination.value} * block_bytes();
  const int64_t row_bytes = shape_.block_size * element_bytes();
  const auto run_bytes = static_cast<size_t>(num_slots * element_bytes());
  for (int64_t h = 0; h < shape_.num_kv_heads; ++h) {
    for (int64_t d = 0; d < shape_.head_dim; ++d) std::memcpy(to + d * row_bytes, from + d * row_bytes, run_bytes);
    const int64_t values = head_bytes() / 2;
    std::memcpy(to + values, from + values, run_bytes * static_cast<size_t>(shape_.head_dim));
    from += head_bytes();
    to += head_bytes();
  }
}

}  // namespace ullage::cpu
