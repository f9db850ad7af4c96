#include "ullage/plan/goal.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace ullage::plan {
namespace {

int64_t runnable(const Scenario& scenario, const Evaluation& e) {
  return std::min(e.capacity.total_expected_requests, e.settings.max_num_seqs * scenario.parallelism.data);
}

// Bytes of one rank's pool that `users` requests of this length lack.
Bytes missing_for_users(const Scenario& scenario, const Evaluation& e, int64_t users) {
  const int64_t each = ceil_div(users, scenario.parallelism.data);
  const auto needed = static_cast<double>(each) * static_cast<double>(e.capacity.request_block_bytes);
  const auto has = static_cast<double>(std::max<int64_t>(0, e.budget.kv_pool.bytes.value));
  const double overdrawn = static_cast<double>(std::max<int64_t>(0, -e.budget.kv_pool.bytes.value));
  return Bytes(static_cast<int64_t>(std::min(9e18, std::max(0.0, needed - has) + overdrawn)));
}

void add(GoalCheck& out, GoalKind kind, double wanted, double found, bool is_at_most, Bytes missing = Bytes(0)) {
  GoalState state;
  state.kind = kind;
  state.wanted = wanted;
  state.found = found;
  state.is_met = is_at_most ? found > 0 && found <= wanted : found >= wanted;
  if (!state.is_met) {
    state.missing = missing;
    out.is_met = false;
    // A time that there is none of counts as far off as can be.
    double off = is_at_most ? (found > 0 ? found / wanted - 1 : 1e3) : (found > 0 ? wanted / found - 1 : 1e3);
    out.shortfall += std::min(off, 1e3);
  }
  out.states.push_back(state);
}

}  // namespace

const char* goal_name(GoalKind kind) {
  switch (kind) {
    case GoalKind::kUsers:
      return "users";
    case GoalKind::kTtft:
      return "TTFT";
    case GoalKind::kItl:
      return "ITL";
    case GoalKind::kContext:
      return "context";
    case GoalKind::kThroughput:
      return "throughput";
  }
  return "?";
}

Scenario aimed_at(const Scenario& scenario, const Goal& goal) {
  Scenario out = scenario;
  if (goal.users > 0) out.concurrency = goal.users;
  if (goal.context_tokens > 0) {
    const auto context = static_cast<double>(goal.context_tokens);
    out.output_tokens = std::min(out.output_tokens, context);
    out.prompt_tokens = context - out.output_tokens;
    out.p95_prompt_tokens = 0;
    out.p95_output_tokens = 0;
    out.shared_prefix_tokens = std::min(out.shared_prefix_tokens, out.prompt_tokens);
    if (out.max_model_len > 0 || (out.shape != nullptr && out.shape->max_position_embeddings < goal.context_tokens)) {
      out.max_model_len = std::max(out.max_model_len, goal.context_tokens);
    }
  }
  return out;
}

Result<GoalCheck> check_goal(Planner& planner, const Scenario& scenario, const Goal& goal) {
  GoalCheck out;
  ULLAGE_TRY(out.evaluation, planner.evaluate(scenario));
  const Evaluation& e = out.evaluation;
  out.states.reserve(5);
  if (goal.users > 0) {
    add(out, GoalKind::kUsers, static_cast<double>(goal.users), static_cast<double>(runnable(scenario, e)), false,
        missing_for_users(scenario, e, goal.users));
  }
  if (goal.context_tokens > 0) {
    add(out, GoalKind::kContext, static_cast<double>(goal.context_tokens),
        static_cast<double>(e.capacity.largest_context), false, missing_for_users(scenario, e, 1));
  }
  const bool runs = e.fit == Fit::kFits;
  if (goal.ttft_seconds > 0) {
    add(out, GoalKind::kTtft, goal.ttft_seconds, runs ? e.timing.ttft_seconds : 0, true);
  }
  if (goal.itl_seconds > 0) {
    add(out, GoalKind::kItl, goal.itl_seconds, runs ? e.timing.itl_seconds : 0, true);
  }
  if (goal.output_tokens_per_second > 0) {
    add(out, GoalKind::kThroughput, goal.output_tokens_per_second, runs ? e.timing.output_tokens_per_second : 0, false);
  }
  return out;
}

std::vector<model::KvDType> kv_choices(const Scenario& scenario, model::KvDType now) {
  std::vector<model::KvDType> out;
  switch (scenario.profile->engine) {
    case memory::Engine::kLlamaCpp:
      out = {model::KvDType::kF16, model::KvDType::kQ8_0, model::KvDType::kQ4_0};
      break;
    case memory::Engine::kUllage:
      out = {model::KvDType::kBF16};
      break;
    default:
      out = {model::KvDType::kBF16, model::KvDType::kFP8E4M3};
  }
  if (std::find(out.begin(), out.end(), now) == out.end()) out.insert(out.begin(), now);
  std::stable_sort(out.begin(), out.end(), [](model::KvDType a, model::KvDType b) {
    return model::kv_head_bytes(a, 128) > model::kv_head_bytes(b, 128);
  });
  return out;
}

std::vector<WeightPrecision> weight_choices(const Scenario& scenario) {
  // A checkpoint that is quantised already is what it is.
  if (!scenario.shape->quantization.method.empty() || !scenario.weight_format.empty()) return {scenario.weights};
  std::vector<WeightPrecision> out{scenario.weights};
  for (const WeightPrecision narrower : {WeightPrecision::kFP8, WeightPrecision::kINT4}) {
    const bool is_wide = scenario.weights == WeightPrecision::kAsStored || scenario.weights == WeightPrecision::kF32 ||
                         scenario.weights == WeightPrecision::kBF16;
    if (is_wide || (scenario.weights != narrower && narrower == WeightPrecision::kINT4 &&
                    scenario.weights != WeightPrecision::kFP4)) {
      out.push_back(narrower);
    }
  }
  return out;
}

std::vector<Lever> levers(const Scenario& scenario, const Evaluation& now, const Goal& goal) {
  std::vector<Lever> out;
  out.reserve(16);
  const auto add_lever = [&](std::string flag, const auto& change) {
    Lever lever{.flag = std::move(flag), .scenario = scenario};
    change(lever.scenario);
    out.push_back(std::move(lever));
  };
  const int64_t replicas = scenario.parallelism.data;
  if (goal.users > now.settings.max_num_seqs * replicas) {
    const int64_t needed = ceil_div(goal.users, replicas);
    add_lever(fmt::format("--max-num-seqs {}", needed), [&](Scenario& s) { s.max_num_seqs = needed; });
  }
  const double utilization = now.settings.gpu_memory_utilization;
  if (!scenario.kv_memory && !scenario.num_blocks && utilization < 0.95) {
    add_lever("--gpu-memory-utilization 0.95", [](Scenario& s) { s.gpu_memory_utilization = 0.95; });
  }
  const int64_t budget = now.settings.max_num_batched_tokens;
  for (const int64_t tokens : {int64_t{2048}, int64_t{8192}, int64_t{16384}}) {
    if (tokens == budget || scenario.profile->engine == memory::Engine::kLesson) continue;
    add_lever(fmt::format("--max-num-batched-tokens {}", tokens),
              [&](Scenario& s) { s.max_num_batched_tokens = tokens; });
  }
  if (goal.users > 0 && now.settings.max_num_seqs > 2 * ceil_div(goal.users, replicas)) {
    // Fewer requests need a smaller workspace for their logits.
    const int64_t needed = ceil_div(goal.users, replicas);
    add_lever(fmt::format("--max-num-seqs {}", needed), [&](Scenario& s) { s.max_num_seqs = needed; });
  }
  if (scenario.has_graphs && now.budget.are_graphs_subtracted && now.budget.graphs.bytes.value > 0) {
    add_lever("--enforce-eager", [](Scenario& s) { s.has_graphs = false; });
  }
  for (const model::KvDType dtype : kv_choices(scenario, now.settings.kv_dtype)) {
    if (model::kv_head_bytes(dtype, 128) >= model::kv_head_bytes(now.settings.kv_dtype, 128)) continue;
    add_lever(fmt::format("--kv-cache-dtype {}", model::kv_dtype_name(dtype)),
              [&](Scenario& s) { s.kv_dtype = dtype; });
  }
  for (const WeightPrecision weights : weight_choices(scenario)) {
    if (weights == scenario.weights) continue;
    add_lever(fmt::format("--weights {}", weight_precision_name(weights)), [&](Scenario& s) { s.weights = weights; });
  }
  add_lever(fmt::format("--tensor-parallel-size {}", scenario.parallelism.tensor * 2),
            [](Scenario& s) { s.parallelism.tensor *= 2; });
  add_lever(fmt::format("--data-parallel-size {}", scenario.parallelism.data * 2),
            [](Scenario& s) { s.parallelism.data *= 2; });
  add_lever(fmt::format("--pipeline-parallel-size {}", scenario.parallelism.pipeline * 2),
            [](Scenario& s) { s.parallelism.pipeline *= 2; });
  return out;
}

}  // namespace ullage::plan
