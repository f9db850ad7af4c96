// How a model's layers form block groups, what a block costs and how many fit. The functions are named after vLLM's,
// whose numbers they give.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/model/kv_dtype.h"
#include "ullage/model/kv_spec.h"
#include "ullage/model/model_shape.h"

namespace ullage::memory {

// Layers that keep the same.
struct KvLayers {
  model::KvSpec spec;
  int64_t num_layers = 1;
};

// What a layout depends on beside the layers.
struct KvLayoutOptions {
  int64_t block_size = 16;  // tokens, 1 to 1,048,576
  model::KvDType kv_dtype = model::KvDType::kBF16;
  int64_t tensor_parallel = 1;           // KV heads a rank: max(1, heads / tp); latent and indexer are not divided
  int64_t num_speculative_tokens = 0;    // widen recurrent convolutions and add states
  bool has_prefix_caching = true;        // recurrent states: 2 a request with ("align"), 1 without
  bool has_group_size_exception = true;  // engine_profile.h
  bool is_hybrid_disabled = false;       // every attention layer is kept like full attention
};

// Layers that share block tables: one block id names a block in each of them.
struct BlockGroup {
  model::KvSpec spec;  // of one rank: heads divided
  int64_t num_layers = 0;
  int64_t block_size = 0;       // tokens, after pages were made equal
  int64_t page_size_bytes = 0;  // one block in one layer (vLLM's page); a group of unlike pages: their sum
  std::vector<int64_t> layers;  // indices into ModelShape::layers; empty when the layout was made from counts alone
};

struct KvLayout {
  KvLayoutOptions options;
  int64_t block_size = 16;  // of full attention: what a boot line calls the block size
  std::vector<BlockGroup> groups;
  int64_t bytes_per_block = 0;   // over one layer of every group at a time: what num_blocks divides by
  int64_t state_block_size = 0;  // hybrid with recurrent layers: the attention block that its state's page asked for
};

// kUnsupported names what is not modelled, with its layer; kTooLarge when a block's bytes do not fit in 63 bits.
Result<KvLayout> make_kv_layout(std::span<const KvLayers> layers, const KvLayoutOptions& options);
Result<KvLayout> make_kv_layout(const model::ModelShape& shape, const KvLayoutOptions& options);

// Bytes of a request of `num_tokens` on one rank as its layers need them, windows capped, without block rounding:
// fixed + per token.
struct RequestBytes {
  int64_t fixed_bytes = 0;      // states
  int64_t per_token_bytes = 0;  // of layers that keep every token
  int64_t windowed_bytes = 0;   // of layers that keep a window or a chunk, at this length
};
int64_t kv_bytes_per_token(const KvLayout& layout);

// floor(available / bytes_per_block) (vLLM get_num_blocks). The null block is one of them.
int64_t num_blocks(const KvLayout& layout, Bytes available);

// How many tokens may be in flight beside those computed: what windows must keep room for.
struct InFlight {
  int64_t max_num_batched_tokens = 8192;
  int64_t max_concurrent_batches = 1;
};
// Blocks of one request of `num_tokens`, over all groups.
int64_t blocks_per_request(const KvLayout& layout, int64_t num_tokens, const InFlight& in_flight = {});

// The capacity as vLLM prints it. It counts the null block, which no request can have: see usable_*.
struct KvCapacity {
  double max_concurrency = 0;         // num_blocks / blocks_per_request
  int64_t size_tokens = 0;            // int(max_concurrency * max_model_len): derived, as vLLM derives it, in double
  double usable_max_concurrency = 0;  // without the null block
  int64_t usable_tokens = 0;          // slots that requests can fill
};
// REQUIRES: num_blocks >= 1, max_model_len >= 1.
KvCapacity kv_capacity(const KvLayout& layout, int64_t num_blocks, int64_t max_model_len,
                       const InFlight& in_flight = {});

}  // namespace ullage::memory
