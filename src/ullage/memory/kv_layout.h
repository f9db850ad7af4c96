// How a model's layers form block groups, what a block costs and how many fit. The functions are named after vLLM's,
// whose numbers they give.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/model/dtype.h"
#include "ullage/model/kv_spec.h"
#include "ullage/model/model_shape.h"

namespace ullage::memory {

// Layers that share block tables: one block id names a block in each of them.
struct BlockGroup {
  model::KvSpec spec;
  std::vector<int64_t> layers;  // indices into ModelShape::layers
  int64_t page_size_bytes = 0;  // one block in one layer (vLLM's page)
};

struct KvLayout {
  int64_t block_size = 16;  // tokens
  model::DType kv_dtype = model::DType::kBF16;
  std::vector<BlockGroup> groups;
  int64_t bytes_per_block = 0;  // over all layers of all groups
};

// Full attention, alike in every layer. Another kind of KV is kUnsupported and named, with its layer.
// `kv_dtype`: kBF16, kF16 or kF32. `block_size`: 1 to 1,048,576 tokens.
Result<KvLayout> make_kv_layout(std::span<const model::KvSpec> specs, int64_t block_size, model::DType kv_dtype);
Result<KvLayout> make_kv_layout(const model::ModelShape& shape, int64_t block_size, model::DType kv_dtype);

// What a token costs: bytes_per_block / block_size, exact since every group keeps whole tokens.
int64_t kv_bytes_per_token(const KvLayout& layout);
// num_blocks = floor(available / page / num_layers) (vLLM get_num_blocks). The null block is one of them.
int64_t num_blocks(const KvLayout& layout, Bytes available);
// Sum over groups of cdiv(max_model_len, block_size).
int64_t blocks_per_request(const KvLayout& layout, int64_t max_model_len);

// The capacity as vLLM prints it. It counts the null block, which no request can have: see usable_*.
struct KvCapacity {
  double max_concurrency = 0;         // num_blocks / blocks_per_request
  int64_t size_tokens = 0;            // int(max_concurrency * max_model_len): derived, as vLLM derives it, in double
  double usable_max_concurrency = 0;  // without the null block
  int64_t usable_tokens = 0;          // slots that requests can fill: (num_blocks - 1) * block_size
};
// REQUIRES: num_blocks >= 1, max_model_len >= 1.
KvCapacity kv_capacity(const KvLayout& layout, int64_t num_blocks, int64_t max_model_len);

}  // namespace ullage::memory
