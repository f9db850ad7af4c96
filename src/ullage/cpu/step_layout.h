// A StepPlan as rows and attention work: checked once, then used by every layer.
#pragma once

#include <cstdint>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/cpu/workspace.h"
#include "ullage/sched/step.h"

namespace ullage::cpu {

// One token of the step.
struct TokenRow {
  TokenId token = 0;
  int64_t position = 0;
  BlockId block;
  int64_t slot = 0;
};

// Consecutive tokens of one request that attend together.
struct AttentionTile {
  int64_t first_row = 0;
  int64_t num_tokens = 0;
  int64_t first_position = 0;
  int64_t first_partition = 0;  // partitions that its last token sees, half-open
  int64_t end_partition = 0;
  const BlockId* block_table = nullptr;
  int64_t partials_offset = -1;  // floats; -1 = partitions one after another in one thread
};

// A tile, or one partition of a split tile.
struct AttentionItem {
  int64_t tile = 0;
  int64_t partition = -1;  // -1 = all
};

struct StepLayout {
  std::vector<TokenRow> rows;                           // [num_tokens]
  std::vector<AttentionTile> tiles;                     // in row order
  std::vector<AttentionItem> items;                     // times num_kv_heads is the work of a layer; longest first
  std::vector<int64_t> split_tiles;                     // whose partials have to be merged
  std::vector<const sched::ScheduledRequest*> sampled;  // in plan order
  std::vector<int64_t> sampled_rows;
};

// What a plan may refer to.
struct StepLimits {
  int64_t max_num_tokens = 0;
  int64_t max_num_seqs = 0;
  int64_t num_blocks = 0;
  int64_t block_size = 0;
  int64_t vocab = 0;
  int64_t window = 0;  // 0 = full attention
  int64_t num_threads = 1;
  int64_t partial_floats = 0;
};

// Refills `layout` (its vectors keep their memory). An Error (kInternal: the scheduler made the plan) names what is
// off.
Result<void> lay_out_step(const sched::StepPlan& plan, const Dimensions& d, const StepLimits& limits,
                          StepLayout* layout);

}  // namespace ullage::cpu
