// What is left for the KV cache, in the order an engine fills a device: utilisation x capacity - weights - activation
// peak - graphs - runtime = pool. The terms other than weights depend on the engine: memory/engine_profile.h.
#pragma once

#include <optional>
#include <string>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/hardware/device.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/model/model_shape.h"
#include "ullage/model/parallelism.h"

namespace ullage::memory {

// How a number was come by; every published number carries it.
enum class Tier : uint8_t { kExact, kModelled, kCalibrated, kGiven };

struct BudgetTerm {
  Bytes bytes;
  Tier tier = Tier::kModelled;
  Bytes error;       // calibrated: nine in ten boots lie within +- this; 0 for exact
  std::string rule;  // the rule in words with its numbers: "39 B x max_num_seqs 1024 x vocab 151,936"
};

struct BudgetInput {
  const model::ModelShape* shape = nullptr;
  const hardware::Device* device = nullptr;
  const EngineProfile* profile = nullptr;
  model::Parallelism parallelism = {};
  double gpu_memory_utilization = 0;  // 0 = the profile's default
  int64_t max_model_len = 0;
  int64_t max_num_seqs = 0;            // 0 = the profile's default on this device
  int64_t max_num_batched_tokens = 0;  // 0 = the profile's default on this device
  bool has_graphs = true;              // false: --enforce-eager
  bool with_draft = false;
  std::optional<Bytes> kv_memory;           // --kv-cache-memory-bytes: the other terms are skipped
  std::optional<Bytes> activation_reserve;  // replaces the profile's rule
};

// Bytes of weights on one rank: the one of the stage with the most.
struct RankWeights {
  Bytes total;
  Bytes embedding;  // and output head
  Bytes layers;     // attention, dense feed-forward, norms
  Bytes experts;    // routed
  Bytes other;      // towers, draft
};
// `with_draft`: draft layers are loaded, too. REQUIRES: check_parallelism passed.
RankWeights rank_weights(const model::ModelShape& shape, const model::Parallelism& parallelism,
                         bool with_draft = false);

// Of one rank (the one with the least left).
struct MemoryBudget {
  Bytes capacity;   // what the driver reports
  Bytes requested;  // utilisation x capacity
  BudgetTerm weights;
  BudgetTerm activations;
  BudgetTerm graphs;   // taken from the pool or not, as `are_graphs_subtracted` says
  BudgetTerm runtime;  // non-torch: CUDA context, NCCL, libraries
  bool are_graphs_subtracted = true;
  BudgetTerm kv_pool;  // 0 or less when the weights do not fit: by how much
};

// kInvalidArgument for utilisation outside (0, 1]. Weights that do not fit are an answer: kv_pool is negative then.
Result<MemoryBudget> make_budget(const BudgetInput& input);

}  // namespace ullage::memory
