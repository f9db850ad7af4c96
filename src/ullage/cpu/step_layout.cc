#include "ullage/cpu/step_layout.h"

#include <algorithm>

#include <fmt/format.h>

namespace ullage::cpu {
namespace {

using sched::ScheduledRequest;
using sched::StepPlan;

Error bad_plan(std::string message) { return Error{ErrorCode::kInternal, std::move(message), "step plan"}; }

Result<void> check_request(const ScheduledRequest& r, const StepLimits& limits) {
  const int64_t end = r.first_position + r.num_tokens;
  if (r.num_tokens < 1 || r.first_position < 0 || end > static_cast<int64_t>(r.tokens.size())) {
    return bad_plan(fmt::format("request {} computes positions [{}, {}) of {} tokens", r.id.value, r.first_position,
                                end, r.tokens.size()));
  }
  if (r.block_tables.size() != 1) {
    return bad_plan(
        fmt::format("request {} has {} block tables; this model has one group", r.id.value, r.block_tables.size()));
  }
  const sched::BlockTable table = r.block_tables.front();
  if (static_cast<int64_t>(table.size()) < ceil_div(end, limits.block_size)) {
    return bad_plan(fmt::format("request {} has {} blocks of {} for {} positions", r.id.value, table.size(),
                                limits.block_size, end));
  }
  for (const BlockId block : table) {
    if (block.value < 0 || block.value >= limits.num_blocks) {
      return bad_plan(fmt::format("request {} names block {} of {}", r.id.value, block.value, limits.num_blocks));
    }
  }
  for (int64_t p = r.first_position; p < end; ++p) {
    const TokenId token = r.tokens[static_cast<size_t>(p)];
    if (token < 0 || token >= limits.vocab) {
      return bad_plan(fmt::format("request {} has token {} at position {}; the vocabulary has {}", r.id.value, token, p,
                                  limits.vocab));
    }
  }
  if (r.is_sampled && r.sampling == nullptr)
    return bad_plan(fmt::format("request {} has no sampling parameters", r.id.value));
  return {};
}

Result<void> check_plan(const StepPlan& plan, const StepLimits& limits) {
  int64_t num_tokens = 0;
  for (const ScheduledRequest& r : plan.requests) {
    ULLAGE_TRY_VOID(check_request(r, limits));
    num_tokens += r.num_tokens;
  }
  if (num_tokens > limits.max_num_tokens || static_cast<int64_t>(plan.requests.size()) > limits.max_num_seqs) {
    return bad_plan(fmt::format("{} tokens of {} requests; the workspace holds {} of {}", num_tokens,
                                plan.requests.size(), limits.max_num_tokens, limits.max_num_seqs));
  }
  for (const sched::BlockCopy& c : plan.copies) {
    const auto is_block = [&](BlockId b) { return b.value >= 0 && b.value < limits.num_blocks; };
    if (!is_block(c.source) || !is_block(c.destination) || c.num_tokens < 0 || c.num_tokens > limits.block_size) {
      return bad_plan(
          fmt::format("copy of {} slots from block {} to {}", c.num_tokens, c.source.value, c.destination.value));
    }
  }
  return {};
}

void add_rows(const ScheduledRequest& r, const StepLimits& limits, StepLayout* layout) {
  const sched::BlockTable table = r.block_tables.front();
  for (int64_t p = r.first_position; p < r.first_position + r.num_tokens; ++p) {
    layout->rows.push_back({r.tokens[static_cast<size_t>(p)], p, table[static_cast<size_t>(p / limits.block_size)],
                            p % limits.block_size});
  }
}

void add_tiles(const ScheduledRequest& r, const Dimensions& d, const StepLimits& limits, int64_t first_row,
               StepLayout* layout) {
  const int64_t max_tokens = std::max<int64_t>(1, kQueryRows / d.group);
  for (int64_t t = 0; t < r.num_tokens; t += max_tokens) {
    AttentionTile tile;
    tile.first_row = first_row + t;
    tile.num_tokens = std::min(max_tokens, r.num_tokens - t);
    tile.first_position = r.first_position + t;
    const int64_t first_seen = limits.window > 0 ? std::max<int64_t>(0, tile.first_position + 1 - limits.window) : 0;
    tile.first_partition = first_seen / kPartition;
    tile.end_partition = ceil_div(tile.first_position + tile.num_tokens, kPartition);
    tile.block_table = r.block_tables.front().data();
    layout->tiles.push_back(tile);
  }
}

// Long single tokens are cut into partitions when there is too little work to keep all threads busy.
void split_tiles(const Dimensions& d, const StepLimits& limits, StepLayout* layout) {
  const int64_t num_whole = static_cast<int64_t>(layout->tiles.size()) * d.num_kv_heads;
  const bool is_splitting = limits.num_threads > 1 && num_whole < 4 * limits.num_threads;
  int64_t used = 0;
  for (size_t i = 0; i < layout->tiles.size(); ++i) {
    AttentionTile& tile = layout->tiles[i];
    const int64_t partitions = tile.end_partition - tile.first_partition;
    const int64_t floats = partitions * d.num_heads * attention_state_floats(d.head_dim);
    const bool is_split =
        is_splitting && tile.num_tokens == 1 && partitions > 1 && used + floats <= limits.partial_floats;
    if (!is_split) {
      layout->items.push_back({static_cast<int64_t>(i), -1});
      continue;
    }
    tile.partials_offset = used;
    used += floats;
    layout->split_tiles.push_back(static_cast<int64_t>(i));
    for (int64_t p = tile.first_partition; p < tile.end_partition; ++p)
      layout->items.push_back({static_cast<int64_t>(i), p});
  }
  const auto length = [&](const AttentionItem& item) {
    const AttentionTile& tile = layout->tiles[static_cast<size_t>(item.tile)];
    return (item.partition < 0 ? tile.end_partition - tile.first_partition : 1) * tile.num_tokens;
  };
  std::stable_sort(layout->items.begin(), layout->items.end(),
                   [&](const AttentionItem& a, const AttentionItem& b) { return length(a) > length(b); });
}

}  // namespace

Result<void> lay_out_step(const StepPlan& plan, const Dimensions& d, const StepLimits& limits, StepLayout* layout) {
  ULLAGE_TRY_VOID(check_plan(plan, limits));
  layout->rows.clear();
  layout->tiles.clear();
  layout->items.clear();
  layout->split_tiles.clear();
  layout->sampled.clear();
  layout->sampled_rows.clear();
  for (const ScheduledRequest& r : plan.requests) {
    const int64_t first_row = static_cast<int64_t>(layout->rows.size());
    add_rows(r, limits, layout);
    add_tiles(r, d, limits, first_row, layout);
    if (!r.is_sampled) continue;
    layout->sampled.push_back(&r);
    layout->sampled_rows.push_back(first_row + r.num_tokens - 1);
  }
  split_tiles(d, limits, layout);
  return {};
}

}  // namespace ullage::cpu
