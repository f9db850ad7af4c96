#include "ullage/memory/startup.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "ullage/base/check.h"

namespace ullage::memory {
namespace {

// The layers of one stage, as a model of its own.
Result<KvLayout> stage_layout(const BudgetInput& input, const KvLayoutOptions& options, int64_t stage) {
  if (input.parallelism.pipeline == 1) return make_kv_layout(*input.shape, options);
  model::ModelShape part = *input.shape;
  const model::LayerRange range =
      model::stage_layers(static_cast<int64_t>(part.layers.size()), input.parallelism.pipeline, stage);
  const auto first = input.shape->layers.begin();
  part.layers.assign(first + static_cast<std::ptrdiff_t>(range.begin), first + static_cast<std::ptrdiff_t>(range.end));
  return make_kv_layout(part, options);
}

}  // namespace

Result<StartupPrediction> predict_startup(const BudgetInput& input, const KvLayoutOptions& options) {
  ULLAGE_CHECK(input.shape != nullptr && input.max_model_len >= 1);
  BudgetInput with_model = input;
  const ModelMemory model = make_model_memory(*input.shape);
  with_model.model = &model;
  const BudgetSettings settings = budget_settings(with_model);
  const InFlight in_flight{.max_num_batched_tokens = settings.max_num_batched_tokens,
                           .max_concurrent_batches = input.profile->max_concurrent_batches};
  StartupPrediction prediction;
  for (int64_t stage = 0; stage < input.parallelism.pipeline; ++stage) {
    ULLAGE_TRY(MemoryBudget budget, make_stage_budget(with_model, stage));
    ULLAGE_TRY(const KvLayout layout, stage_layout(input, options, stage));
    const Bytes pool = std::max(budget.kv_pool.bytes, Bytes(0));
    const int64_t blocks = num_blocks(layout, pool);
    prediction.stages.push_back(std::move(budget));
    if (stage > 0 && blocks >= prediction.num_blocks) continue;
    prediction.num_blocks = blocks;
    prediction.least_stage = static_cast<size_t>(stage);
    if (blocks >= 1) prediction.capacity = kv_capacity(layout, blocks, input.max_model_len, in_flight);
  }
  return prediction;
}

}  // namespace ullage::memory
