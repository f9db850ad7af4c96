// What is left for the KV cache, in the order an engine fills a device: utilisation x capacity - weights - activation
// peak - graphs - runtime = pool. The terms other than weights depend on the engine: memory/engine_profile.h.
#pragma once

#include <optional>
#include <string>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/hardware/device.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/memory/model_memory.h"
#include "ullage/model/model_shape.h"
#include "ullage/model/parallelism.h"

namespace ullage::memory {

// How a number was come by; every published number carries it.
enum class Tier : uint8_t { kExact, kModelled, kCalibrated, kGiven };

struct BudgetTerm {
  Bytes bytes;
  Tier tier = Tier::kModelled;
  Bytes error;       // calibrated: nine in ten boots lie within +- this; 0 for exact
  std::string rule;  // in words with its numbers; empty until explain_budget() fills it
};

struct BudgetInput {
  const model::ModelShape* shape = nullptr;
  const ModelMemory* model = nullptr;  // of that shape, when it was made before; null = made for this call
  const hardware::Device* device = nullptr;
  const EngineProfile* profile = nullptr;
  model::Parallelism parallelism = {};
  double gpu_memory_utilization = 0;  // 0 = the profile's default
  int64_t max_model_len = 0;
  int64_t max_num_seqs = 0;            // 0 = the profile's default on this device
  int64_t max_num_batched_tokens = 0;  // 0 = the profile's default on this device
  bool has_graphs = true;              // false: --enforce-eager
  bool with_draft = false;
  std::optional<Bytes> kv_memory = {};           // --kv-cache-memory-bytes: the other terms are skipped
  std::optional<Bytes> activation_reserve = {};  // replaces the profile's rule
};

// Of one rank (the one with the least left for each of its layers).
struct MemoryBudget {
  int64_t stage = 0;  // of pipeline parallelism, the rank is of
  Bytes capacity;     // what the driver reports; with `lesson`, the nominal size read as GiB
  Bytes requested;    // utilisation x capacity
  BudgetTerm weights;
  BudgetTerm activations;
  BudgetTerm graphs;   // taken from the pool or not, as `are_graphs_subtracted` says
  BudgetTerm runtime;  // non-torch: CUDA context, NCCL, libraries
  bool are_graphs_subtracted = true;
  bool are_weights_subtracted = true;  // not on a CPU, where they are mapped files
  BudgetTerm kv_pool;                  // 0 or less when the weights do not fit: by how much
};

// kInvalidArgument for utilisation outside (0, 1]. Weights that do not fit are an answer: kv_pool is negative then.
// REQUIRES: shape or model, device and profile are set; check_parallelism passed. Less than a microsecond with `model`.
Result<MemoryBudget> make_budget(const BudgetInput& input);
// Of one stage of pipeline parallelism. REQUIRES: 0 <= stage < parallelism.pipeline.
Result<MemoryBudget> make_stage_budget(const BudgetInput& input, int64_t stage);
// Fills in each term's `rule`: "14 B x 1,024 requests x vocabulary 151,936 + ...".
void explain_budget(const BudgetInput& input, MemoryBudget& budget);

// What a budget's zeros stand for.
struct BudgetSettings {
  double utilization = 0;
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  int64_t profiled_tokens = 0;  // of the largest forward pass
};
BudgetSettings budget_settings(const BudgetInput& input);

// The graphs that an engine captures for batches of up to `max_num_seqs` requests.
int64_t num_captured_graphs(int64_t max_num_seqs);

}  // namespace ullage::memory
