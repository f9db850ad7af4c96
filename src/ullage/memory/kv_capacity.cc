// What a layout holds: blocks, requests, tokens.
#include <algorithm>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/base/saturating.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/memory/kv_page.h"

namespace ullage::memory {
namespace {

int64_t in_flight_tokens(const InFlight& in_flight) {
  return saturating_mul(std::max<int64_t>(in_flight.max_num_batched_tokens, 0),
                        std::max<int64_t>(in_flight.max_concurrent_batches, 0));
}

// Blocks of one request in one group (vLLM's max_memory_usage_bytes / page_size_bytes).
struct BlocksOf {
  const KvLayoutOptions& options;
  const BlockGroup& group;
  int64_t num_tokens;
  int64_t in_flight;

  int64_t every_token() const {
    return ceil_div(options.decode_context > 1 ? ceil_div(num_tokens, options.decode_context) : num_tokens,
                    group.block_size);
  }
  int64_t operator()(const model::FullAttentionKv&) const { return every_token(); }
  int64_t operator()(const model::LatentKv&) const { return every_token(); }
  int64_t operator()(const model::IndexerKv&) const { return every_token(); }
  int64_t operator()(const model::SlidingWindowKv& kv) const {
    const int64_t reach = saturating_add(kv.window - 1 + options.extra_retained_tokens, in_flight);
    // One more: a window that does not start at a block's first token touches two blocks at its ends.
    return ceil_div(std::min(reach, num_tokens), group.block_size) + 1;
  }
  int64_t operator()(const model::ChunkedLocalKv& kv) const {
    return ceil_div(std::min(saturating_add(kv.chunk, in_flight), num_tokens), group.block_size);
  }
  int64_t operator()(const model::RecurrentState&) const {
    if (!options.has_prefix_caching) return 1 + options.num_speculative_tokens;
    if (options.state_chunk_size > 0) return ceil_div(num_tokens, group.block_size) + options.num_speculative_tokens;
    return 2 + options.num_speculative_tokens;
  }
  int64_t operator()(const model::CrossAttentionKv& kv) const { return ceil_div(kv.max_encoder_len, group.block_size); }
  int64_t operator()(const model::SharedKv&) const { return 0; }
  int64_t operator()(const model::NoKv&) const { return 0; }
};

double gib(int64_t blocks, int64_t bytes_per_block) {
  return static_cast<double>(blocks) * static_cast<double>(bytes_per_block) / static_cast<double>(kGiB);
}

// int(x) of a double that may be beyond int64_t.
int64_t truncated(double x) {
  constexpr double kLimit = 9.2e18;
  return x < kLimit ? static_cast<int64_t>(x) : kSaturated;
}

}  // namespace

int64_t num_blocks(const KvLayout& layout, Bytes available) {
  if (available.value <= 0 || layout.bytes_per_block <= 0) return 0;
  // Floor after each division gives the floor of the whole, so one division is vLLM's two.
  return available.value / layout.bytes_per_block;
}

int64_t blocks_per_request(const KvLayout& layout, int64_t num_tokens, const InFlight& in_flight) {
  const int64_t flying = in_flight_tokens(in_flight);
  int64_t blocks = 0;
  for (const BlockGroup& group : layout.groups) {
    blocks = saturating_add(blocks, std::visit(BlocksOf{layout.options, group, num_tokens, flying}, group.spec));
  }
  return blocks;
}

int64_t max_model_len_that_fits(const KvLayout& layout, int64_t num_blocks, int64_t at_most,
                                const InFlight& in_flight) {
  int64_t low = 1;
  int64_t high = at_most;
  int64_t longest = 0;
  while (low <= high) {
    const int64_t middle = low + (high - low) / 2;
    if (blocks_per_request(layout, middle, in_flight) <= num_blocks) {
      longest = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return longest;
}

Result<void> check_request_fits(const KvLayout& layout, Bytes available, int64_t max_model_len,
                                const InFlight& in_flight, std::string_view where) {
  const int64_t blocks = num_blocks(layout, available);
  const int64_t needed = blocks_per_request(layout, max_model_len, in_flight);
  if (needed <= blocks && available.value > 0) return {};
  const double available_gib = static_cast<double>(available.value) / static_cast<double>(kGiB);
  if (available.value <= 0) {
    return Error{
        ErrorCode::kTooLarge,
        fmt::format("no memory is left for the KV cache ({:.2f} GiB); raise the utilisation or choose a larger "
                    "device",
                    available_gib),
        "KV pool"};
  }
  const int64_t longest = max_model_len_that_fits(layout, blocks, max_model_len, in_flight);
  const std::string fits = longest > 0 ? fmt::format("the longest request that fits has {} tokens", longest)
                                       : std::string("not one token fits");
  return Error{ErrorCode::kTooLarge,
               fmt::format("one request of {} tokens needs {:.2f} GiB of KV cache, and {:.2f} GiB are there; {}: lower "
                           "max_model_len, raise the utilisation, or choose a narrower KV dtype",
                           max_model_len, gib(needed, layout.bytes_per_block), available_gib, fits),
               std::string(where)};
}

KvCapacity kv_capacity(const KvLayout& layout, int64_t num_blocks, int64_t max_model_len, const InFlight& in_flight) {
  ULLAGE_CHECK(num_blocks >= 1 && max_model_len >= 1 && !layout.groups.empty());
  const auto per_request = static_cast<double>(blocks_per_request(layout, max_model_len, in_flight));
  const auto length = static_cast<double>(max_model_len);
  KvCapacity capacity;
  // In double and in this order, as vLLM computes it: exact integer arithmetic differs by one token now and then.
  capacity.max_concurrency = static_cast<double>(num_blocks) / per_request;
  capacity.size_tokens = truncated(capacity.max_concurrency * length);
  capacity.usable_max_concurrency = static_cast<double>(num_blocks - 1) / per_request;

  int64_t smallest = kSaturated;
  for (const BlockGroup& group : layout.groups) {
    smallest = std::min(smallest, group.block_size > 0 ? group.block_size : max_model_len);
  }
  const int64_t ranks = layout.options.decode_context;
  capacity.size_tokens_by_groups =
      saturating_mul(saturating_mul(num_blocks / static_cast<int64_t>(layout.groups.size()), smallest), ranks);
  const bool has_slots = layout.groups.size() == 1 && keeps_every_token(layout.groups[0].spec);
  capacity.usable_tokens = has_slots ? saturating_mul(saturating_mul(num_blocks - 1, smallest), ranks)
                                     : truncated(capacity.usable_max_concurrency * length);
  return capacity;
}

int64_t requests_that_fit(const KvLayout& layout, int64_t num_blocks, int64_t num_tokens, const InFlight& in_flight) {
  const int64_t per_request = blocks_per_request(layout, num_tokens, in_flight);
  return per_request > 0 && num_blocks > 1 ? (num_blocks - 1) / per_request : 0;
}

}  // namespace ullage::memory
