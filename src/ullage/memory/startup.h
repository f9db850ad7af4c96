// What a start-up of an engine will log, from nothing but model, flags and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/memory/budget.h"
#include "ullage/memory/kv_layout.h"

namespace ullage::memory {

struct StartupPrediction {
  // One rank of each pipeline stage. A log prints lines of one, or of several mixed.
  std::vector<MemoryBudget> stages;
  size_t least_stage = 0;  // with the fewest blocks: it decides the count
  int64_t num_blocks = 0;  // 0 when the weights do not fit
  KvCapacity capacity;     // of num_blocks; zeros when there are none
};

// REQUIRES: input.shape is set and max_model_len is at least 1; check_parallelism passed. Errors are the budget's and
// the layout's. Layers that share another's cache must lie in its stage.
Result<StartupPrediction> predict_startup(const BudgetInput& input, const KvLayoutOptions& options);

}  // namespace ullage::memory
