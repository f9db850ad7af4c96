// How many blocks this engine's pool gets. `ullage serve` and `ullage plan --policy ullage` both ask here, so that they
// cannot differ (invariant 5).
#pragma once

#include <cstdint>
#include <optional>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/memory/kv_layout.h"

namespace ullage::memory {

struct PoolRequest {
  Bytes share;                          // what the pool may take
  Bytes limit;                          // what there is for it at most: the bound of `num_blocks`
  std::optional<Bytes> kv_memory = {};  // --kv-cache-memory: less than the share
  int64_t num_blocks = 0;               // --num-gpu-blocks-override; 0 = as many as fit and are of use
  int64_t max_num_seqs = 0;
  int64_t max_model_len = 0;
  bool may_shorten = false;  // max_model_len was left to us: shortened to what the pool holds
};

struct PoolSize {
  int64_t num_blocks = 0;     // the null block included
  int64_t max_model_len = 0;  // as asked for, or shortened
  bool is_capped = false;     // kv_memory was over the share
};

// The least of the share, kv_memory and what max_num_seqs requests of max_model_len can use, one block more for the
// null block; or `num_blocks`, if `limit` holds so many. kTooLarge, with the numbers, when that is no pool or holds no
// request of max_model_len. REQUIRES: max_num_seqs and max_model_len at least 1 and below 2^31.
Result<PoolSize> size_pool(const KvLayout& layout, const PoolRequest& request);

}  // namespace ullage::memory
