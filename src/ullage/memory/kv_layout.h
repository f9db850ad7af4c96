// How a model's layers form block groups, what a block costs and how many fit. The functions are named after vLLM's,
// whose numbers they give. From a list of distinct layers with their counts a layout takes well under a microsecond, so
// plans make one for each scenario.
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
#include "ullage/model/parallelism.h"

namespace ullage::memory {

// Layers that keep the same.
struct KvLayers {
  model::KvSpec spec;
  int64_t num_layers = 1;
};

// "full attention", "latent (MLA)", "sliding window": what a layer's KV is called.
const char* kv_kind_name(const model::KvSpec& spec);

// What a model's layers keep, alike ones together, in the order in which they first appear; layers that keep nothing
// are left out. A layer that keeps two things (a latent and an indexer's key) counts in two.
std::vector<KvLayers> distinct_kv_layers(const model::ModelShape& shape, bool with_draft = false);

// What a layout depends on beside the layers.
struct KvLayoutOptions {
  int64_t block_size = 16;  // tokens, 1 to 1,048,576
  model::KvDType kv_dtype = model::KvDType::kBF16;
  int64_t tensor_parallel = 1;           // KV heads a rank: max(1, heads / tp); latent and indexer are not divided
  int64_t decode_context = 1;            // ranks that share one request's tokens (DCP); not with windows and chunks
  int64_t num_speculative_tokens = 0;    // widen recurrent convolutions and add states
  int64_t extra_retained_tokens = 0;     // kept before a window: speculative tokens - 1 with several MTP modules
  bool has_prefix_caching = true;        // recurrent states: 2 a request with ("align"), 1 without
  int64_t state_chunk_size = 0;          // over 0: mode "all", a state in every block; the model's mamba_chunk_size
  int64_t state_block_alignment = 0;     // of the block that a state's page asks for; 0 = 16, latent 128
  int64_t latent_padding = 1;            // latent vectors are padded to a multiple of so many numbers
  bool has_group_size_exception = true;  // groups as large as the largest kind of layers, when that is less than
  int64_t group_size_percent = 150;      // so many percent of the smallest
  bool pads_unlike_pages = true;         // pages of heads that do not divide the largest are padded to it (vLLM from
                                         // 0.24); false: such a layout is refused
  bool is_hybrid_disabled = false;       // every attention layer is kept like full attention
  bool with_draft = false;               // from a ModelShape: draft layers keep theirs, too
};

// Layers that share block tables: one block id names a block in each of them.
struct BlockGroup {
  model::KvSpec spec;  // of one rank: heads divided. Unlike layers in one group: the first's
  int64_t num_layers = 0;
  int64_t block_size = 0;       // tokens, after pages were made equal; 0 = a block holds a whole request's state
  int64_t page_size_bytes = 0;  // one block in one layer (vLLM's page); a group of unlike pages: their sum
  bool has_unlike_pages = false;
  std::vector<int64_t> layers;  // indices into ModelShape::layers (draft layers after them); empty when the layout was
                                // made from counts alone
};

struct KvLayout {
  KvLayoutOptions options;
  int64_t block_size = 16;  // what a boot line calls the block size: the option, or what a state's page asked for
  std::vector<BlockGroup> groups;  // none: the model keeps nothing
  int64_t bytes_per_block = 0;     // over one layer of every group at a time: what num_blocks divides by
  int64_t state_block_size = 0;    // hybrid with recurrent layers: the attention block that its state's page asked for
  double state_padding = 0;        // share by which the state's page was padded to the attention page
};

// kUnsupported names what is not modelled, with its layer; kTooLarge when a block's bytes do not fit in 63 bits.
Result<KvLayout> make_kv_layout(std::span<const KvLayers> layers, const KvLayoutOptions& options);
// The same with BlockGroup::layers filled in.
Result<KvLayout> make_kv_layout(const model::ModelShape& shape, const KvLayoutOptions& options);

// Under pipeline parallelism: what a block costs in each stage. A layout's groups are the whole model's, a stage has
// its own layers of each (vLLM _project_kv_cache_groups_to_worker). num_blocks is the least over stages of what its
// memory holds. REQUIRES: `layout` made from `shape`; 1 to as many stages as layers.
std::vector<int64_t> stage_bytes_per_block(const KvLayout& layout, const model::ModelShape& shape, int64_t num_stages);

// Bytes of one layer on one rank: per token, or of a state. kUnsupported, kInvalidArgument, kTooLarge as above.
Result<int64_t> layer_bytes(const model::KvSpec& spec, const KvLayoutOptions& options);

// Bytes of a request of `num_tokens` on one rank as its layers need them, windows capped, without block rounding:
// fixed + per token.
struct RequestBytes {
  int64_t num_tokens = 0;
  int64_t fixed_bytes = 0;      // states, an encoder's keys and values
  int64_t per_token_bytes = 0;  // of layers that keep every token
  int64_t windowed_bytes = 0;   // of layers that keep a window or a chunk, at this length
  int64_t total() const { return fixed_bytes + windowed_bytes + per_token_bytes * num_tokens; }
};
// Errors as make_kv_layout's; kTooLarge when the total does not fit in 63 bits.
Result<RequestBytes> request_bytes(std::span<const KvLayers> layers, const KvLayoutOptions& options,
                                   int64_t num_tokens);
// What one more token adds once windows are full: of the layers that keep every token, layer-exact.
Result<int64_t> kv_bytes_per_token(std::span<const KvLayers> layers, const KvLayoutOptions& options);
// The same as blocks hold it: padding of pages included.
int64_t kv_bytes_per_token(const KvLayout& layout);

// floor(available / bytes_per_block) (vLLM get_num_blocks). The null block is one of them.
int64_t num_blocks(const KvLayout& layout, Bytes available);

// How many tokens may be in flight beside those computed: what windows must keep room for. Before vLLM 0.26 one batch.
struct InFlight {
  int64_t max_num_batched_tokens = 8192;
  int64_t max_concurrent_batches = 1;
};
// Blocks of one request of `num_tokens`, over all groups.
int64_t blocks_per_request(const KvLayout& layout, int64_t num_tokens, const InFlight& in_flight = {});

// The longest request, not above `at_most` tokens, whose blocks are at most `num_blocks`; 0 when not one token fits
// (vLLM estimate_max_model_len).
int64_t max_model_len_that_fits(const KvLayout& layout, int64_t num_blocks, int64_t at_most,
                                const InFlight& in_flight = {});
// kTooLarge when one request of max_model_len is larger than the pool, with the needed and the available GiB and the
// longest length that fits: where vLLM refuses to start with a ValueError.
Result<void> check_request_fits(const KvLayout& layout, Bytes available, int64_t max_model_len,
                                const InFlight& in_flight = {}, std::string_view where = "--max-model-len");

// The capacity as vLLM prints it. It counts the null block, which no request can have: see usable_*.
struct KvCapacity {
  double max_concurrency = 0;         // num_blocks / blocks_per_request
  int64_t size_tokens = 0;            // int(max_concurrency * max_model_len): derived, as vLLM derives it, in double
  int64_t size_tokens_by_groups = 0;  // as printed before 0.20.2: num_blocks // groups * the smallest block
  double usable_max_concurrency = 0;  // without the null block
  int64_t usable_tokens = 0;          // slots that requests can fill; several groups: at max_model_len
};
// REQUIRES: num_blocks >= 1, max_model_len >= 1.
KvCapacity kv_capacity(const KvLayout& layout, int64_t num_blocks, int64_t max_model_len,
                       const InFlight& in_flight = {});

// Requests of `num_tokens` each that run at once on what is left beside the null block. For requests that decode, give
// an InFlight of their one token: a window's room for a prompt's chunk is needed by the requests in prefill alone.
int64_t requests_that_fit(const KvLayout& layout, int64_t num_blocks, int64_t num_tokens,
                          const InFlight& in_flight = {});

}  // namespace ullage::memory
