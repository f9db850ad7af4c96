#include "ullage/memory/budget.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/memory/activations.h"

namespace ullage::memory {
namespace {

// llama.cpp computes this many tokens at a time (n_ubatch), whatever the batch.
constexpr int64_t kMicroBatch = 512;

// The nominal size as the lessons read it: the number before "GB" taken for GiB.
Bytes lesson_capacity(const hardware::Device& device) {
  constexpr int64_t kGB = 1'000'000'000;
  const int64_t nominal = device.nominal_memory.value;
  if (nominal % kGiB != 0 && nominal % kGB == 0) return Bytes(nominal / kGB * kGiB);
  return device.nominal_memory;
}

Bytes capacity_of(const BudgetInput& input) {
  return input.profile->engine == Engine::kLesson ? lesson_capacity(*input.device) : input.device->usable_memory;
}

Bytes requested_of(const BudgetInput& input, Bytes capacity, double utilization) {
  const double bytes = static_cast<double>(capacity.value) * utilization;
  // vLLM rounds up; this engine's share is rounded down (pool_size.h), as are the others'.
  return Bytes(static_cast<int64_t>(input.profile->engine == Engine::kVllm ? std::ceil(bytes) : bytes));
}

BudgetTerm activations_of(const BudgetInput& input, const ModelMemory& model, const BudgetSettings& settings,
                          int64_t stage) {
  BudgetTerm term;
  if (input.activation_reserve) {
    term.bytes = *input.activation_reserve;
    term.tier = Tier::kGiven;
    return term;
  }
  const ActivationRule& rule = input.profile->activation;
  const bool is_micro = input.profile->engine == Engine::kLlamaCpp;
  term.bytes = activation_peak(rule, model,
                               {.num_tokens = settings.profiled_tokens,
                                .max_num_seqs = is_micro ? settings.profiled_tokens : settings.max_num_seqs,
                                .tensor_parallel = input.parallelism.tensor,
                                .samples = stage + 1 == input.parallelism.pipeline})
                   .total;
  term.error = rule.error;
  term.tier = rule.error.value > 0 ? Tier::kCalibrated : Tier::kModelled;
  return term;
}

BudgetTerm runtime_of(const BudgetInput& input, const ModelMemory& model, int64_t stage) {
  const RuntimeRule& rule = input.profile->runtime;
  const bool samples = stage + 1 == input.parallelism.pipeline;
  BudgetTerm term;
  term.bytes = samples ? rule.alone : rule.before_sampler;
  if (input.parallelism.tensor > 1) {
    term.bytes = term.bytes + (input.device->link_bandwidth > 0 ? rule.peers_by_link : rule.peers_by_pcie);
    for (int64_t n = 2; n * 2 <= input.parallelism.tensor; n *= 2) term.bytes = term.bytes + rule.each_doubling;
  }
  if (samples && model.vocab_size % 4 != 0) term.bytes = term.bytes + rule.unaligned_logits;
  if (input.device->category == "integrated") term.bytes = term.bytes + rule.on_shared_memory;
  term.error = rule.error;
  term.tier = rule.error.value > 0 ? Tier::kCalibrated : Tier::kExact;
  return term;
}

BudgetTerm graphs_of(const BudgetInput& input, const BudgetSettings& settings) {
  BudgetTerm term;
  if (!input.has_graphs || input.profile->graph_bytes.value == 0) {
    term.tier = Tier::kExact;
    return term;
  }
  term.bytes = input.profile->graph_bytes * num_captured_graphs(settings.max_num_seqs);
  term.error = input.profile->graph_error;
  term.tier = Tier::kCalibrated;
  return term;
}

// The pool is what the others leave.
void set_pool(const BudgetInput& input, MemoryBudget& budget) {
  BudgetTerm& pool = budget.kv_pool;
  if (input.kv_memory) {
    pool.bytes = *input.kv_memory;
    pool.tier = Tier::kGiven;
    return;
  }
  pool.bytes = budget.requested - budget.activations.bytes - budget.runtime.bytes;
  if (budget.are_weights_subtracted) pool.bytes = pool.bytes - budget.weights.bytes;
  pool.error = budget.activations.error + budget.runtime.error;
  if (budget.are_graphs_subtracted) {
    pool.bytes = pool.bytes - budget.graphs.bytes;
    pool.error = pool.error + budget.graphs.error;
  }
  pool.tier = pool.error.value > 0 ? Tier::kCalibrated : Tier::kExact;
  if (input.profile->engine == Engine::kLesson) pool.tier = Tier::kModelled;
}

Result<MemoryBudget> stage_budget(const BudgetInput& input, const ModelMemory& model, const BudgetSettings& settings,
                                  int64_t stage) {
  if (!(settings.utilization > 0 && settings.utilization <= 1)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("is {}; a share over 0 and up to 1 was expected, such as 0.9", settings.utilization),
                 "--gpu-memory-utilization"};
  }
  MemoryBudget budget;
  budget.stage = stage;
  budget.capacity = capacity_of(input);
  budget.requested = requested_of(input, budget.capacity, settings.utilization);
  budget.weights.bytes = stage_weights(model, input.parallelism, stage, input.with_draft).total;
  budget.weights.tier = Tier::kExact;
  if (input.profile->engine == Engine::kVllm || input.profile->engine == Engine::kSglang) {
    budget.weights.bytes.value += model.rotary_bytes;
  }
  budget.are_weights_subtracted = input.profile->engine != Engine::kUllage || !runs_on_cpu(*input.device);
  budget.are_graphs_subtracted = input.profile->subtracts_graphs;
  budget.activations = activations_of(input, model, settings, stage);
  budget.graphs = graphs_of(input, settings);
  budget.runtime = runtime_of(input, model, stage);
  set_pool(input, budget);
  return budget;
}

}  // namespace

int64_t num_captured_graphs(int64_t max_num_seqs) {
  // vLLM captures twice (piecewise and full) at 1, 2, 4, then every 8 to 256 and every 16 to 512 tokens, at most twice
  // max_num_seqs.
  const int64_t largest = std::min<int64_t>(std::min<int64_t>(max_num_seqs, 1024) * 2, 512);
  int64_t sizes = 0;
  for (const int64_t size : {1, 2, 4}) sizes += size <= largest ? 1 : 0;
  sizes += std::min<int64_t>(largest, 256 - 8) / 8;
  if (largest >= 256) sizes += (largest - 256) / 16 + 1;
  return 2 * sizes;
}

BudgetSettings budget_settings(const BudgetInput& input) {
  const EngineProfile& profile = *input.profile;
  BudgetSettings s;
  s.max_num_seqs = input.max_num_seqs > 0 ? input.max_num_seqs : default_max_num_seqs(profile, *input.device);
  s.max_num_batched_tokens = input.max_num_batched_tokens > 0 ? input.max_num_batched_tokens
                                                              : default_max_num_batched_tokens(profile, *input.device);
  s.profiled_tokens = s.max_num_batched_tokens;
  if (profile.profiles_max_model_len && input.max_num_batched_tokens == 0) {
    // V0 turned chunked prefill on by itself above 32k, and then took 512 tokens a step.
    s.profiled_tokens = input.max_model_len > 32768 ? 512 : std::max<int64_t>(input.max_model_len, 2048);
  }
  if (profile.engine == Engine::kLlamaCpp) s.profiled_tokens = std::min(s.profiled_tokens, kMicroBatch);
  const int64_t num_ranks = input.parallelism.tensor * input.parallelism.pipeline;
  s.utilization = input.gpu_memory_utilization != 0
                      ? input.gpu_memory_utilization
                      : default_utilization(profile, *input.device, num_ranks, input.max_num_batched_tokens);
  return s;
}

Result<MemoryBudget> make_stage_budget(const BudgetInput& input, int64_t stage) {
  ULLAGE_CHECK((input.shape != nullptr || input.model != nullptr) && input.device != nullptr &&
               input.profile != nullptr);
  if (input.model != nullptr) return stage_budget(input, *input.model, budget_settings(input), stage);
  return stage_budget(input, make_model_memory(*input.shape), budget_settings(input), stage);
}

Result<MemoryBudget> make_budget(const BudgetInput& input) {
  if (input.model == nullptr) {
    ULLAGE_CHECK(input.shape != nullptr);
    const ModelMemory model = make_model_memory(*input.shape);
    BudgetInput with_model = input;
    with_model.model = &model;
    return make_budget(with_model);
  }
  ULLAGE_TRY(MemoryBudget least, make_stage_budget(input, 0));
  // The count of blocks is the smallest over the stages: that of the stage with the least for each of its layers.
  const auto num_layers = static_cast<int64_t>(input.model->layer_kind.size());
  const auto each = [&](const MemoryBudget& budget) {
    const model::LayerRange range = model::stage_layers(num_layers, input.parallelism.pipeline, budget.stage);
    return static_cast<double>(budget.kv_pool.bytes.value) /
           static_cast<double>(std::max<int64_t>(1, range.end - range.begin));
  };
  for (int64_t stage = 1; stage < input.parallelism.pipeline; ++stage) {
    ULLAGE_TRY(MemoryBudget budget, make_stage_budget(input, stage));
    if (each(budget) < each(least)) least = std::move(budget);
  }
  return least;
}

}  // namespace ullage::memory
