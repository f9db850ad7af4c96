#include "ullage/memory/pool_size.h"

#include <algorithm>

#include <fmt/format.h>

namespace ullage::memory {
namespace {

Result<int64_t> overridden(const KvLayout& layout, const PoolRequest& request) {
  // Reserving more than there is would succeed, and end the program once the blocks are written.
  const int64_t most = num_blocks(layout, request.limit);
  if (request.num_blocks <= most) return request.num_blocks;
  return Error{
      ErrorCode::kTooLarge,
      fmt::format("{} blocks of {} are more than the {} of memory that there are; give {} or fewer", request.num_blocks,
                  format_bytes(Bytes(layout.bytes_per_block)), format_bytes(request.limit), std::max<int64_t>(0, most)),
      "--num-gpu-blocks-override"};
}

Result<int64_t> fitting(const KvLayout& layout, const PoolRequest& request) {
  Bytes budget = request.share;
  if (request.kv_memory) budget = std::min(budget, *request.kv_memory);
  const int64_t useful = request.max_num_seqs * blocks_per_request(layout, request.max_model_len) + 1;
  const int64_t blocks = budget.value > 0 ? std::min(num_blocks(layout, budget), useful) : 0;
  if (blocks >= 2) return blocks;
  return Error{
      ErrorCode::kTooLarge,
      fmt::format("no room for a KV cache: {} hold {} blocks of {}, and 2 are the least; free memory or "
                  "lower --block-size",
                  format_bytes(std::max(budget, Bytes(0))), blocks, format_bytes(Bytes(layout.bytes_per_block))),
      "KV pool"};
}

}  // namespace

Result<PoolSize> size_pool(const KvLayout& layout, const PoolRequest& request) {
  PoolSize pool;
  pool.max_model_len = request.max_model_len;
  if (request.num_blocks > 0) {
    ULLAGE_TRY(pool.num_blocks, overridden(layout, request));
  } else {
    pool.is_capped = request.kv_memory && *request.kv_memory > request.share;
    ULLAGE_TRY(pool.num_blocks, fitting(layout, request));
  }
  const int64_t usable_tokens = (pool.num_blocks - 1) * layout.block_size;
  if (usable_tokens >= pool.max_model_len) return pool;
  if (!request.may_shorten) {
    const int64_t needed = blocks_per_request(layout, pool.max_model_len);
    return Error{
        ErrorCode::kTooLarge,
        fmt::format("one request of {} tokens needs {} of KV cache, the pool's {} blocks hold {} tokens; lower "
                    "--max-model-len or raise --kv-cache-memory",
                    pool.max_model_len, format_bytes(Bytes(layout.bytes_per_block) * needed), pool.num_blocks,
                    usable_tokens),
        "--max-model-len"};
  }
  if (usable_tokens < 2) {
    return Error{ErrorCode::kTooLarge, "the pool holds less than two tokens; raise --kv-cache-memory", "KV pool"};
  }
  pool.max_model_len = usable_tokens;
  return pool;
}

}  // namespace ullage::memory
