#include "ullage/plan/evaluate.h"

#include <algorithm>
#include <utility>

#include "ullage/base/saturating.h"
#include "ullage/plan/answers.h"
#include "ullage/plan/load.h"
#include "ullage/plan/stages.h"

namespace ullage::plan {
namespace {

void choose_running(const Scenario& scenario, Evaluation& out) {
  const int64_t replicas = scenario.parallelism.data;
  const int64_t by_setting = out.settings.max_num_seqs * replicas;
  const int64_t by_memory = out.capacity.total_expected_requests;
  out.running = std::min({scenario.concurrency, by_setting, by_memory});
  out.waiting = scenario.concurrency - out.running;
  if (by_memory < 1) {
    out.limit = Limit::kNothingFits;
  } else if (scenario.concurrency <= std::min(by_setting, by_memory)) {
    out.limit = Limit::kArrivals;
  } else {
    out.limit = by_setting <= by_memory ? Limit::kMaxNumSeqs : Limit::kMemory;
  }
}

void fill_money_and_load(const Scenario& scenario, Evaluation& out) {
  const Timing& timing = out.timing;
  if (scenario.price_per_hour > 0 && out.running > 0) {
    const double decode = timing.step_seconds * scenario.output_tokens / timing.tokens_per_step;
    const double prefill_share = timing.request_seconds > 0 ? 1 - decode / timing.request_seconds : 0;
    out.money = money_of(scenario.price_per_hour * static_cast<double>(scenario.parallelism.num_devices()),
                         timing.input_tokens_per_second, timing.output_tokens_per_second, prefill_share, out.running);
  }
  if (scenario.qps > 0) {
    const double duration = scenario.duration_seconds > 0 ? scenario.duration_seconds : timing.request_seconds;
    const int64_t ceiling =
        std::min(out.capacity.total_expected_requests, out.settings.max_num_seqs * scenario.parallelism.data);
    out.load = load_of(scenario.qps, duration, ceiling);
  }
}

}  // namespace

const char* limit_name(Limit limit) {
  switch (limit) {
    case Limit::kArrivals:
      return "arrivals";
    case Limit::kMaxNumSeqs:
      return "max_num_seqs";
    case Limit::kMemory:
      return "memory";
    case Limit::kNothingFits:
      return "nothing fits";
  }
  return "?";
}

const char* bound_name(cost::Bound bound) {
  switch (bound) {
    case cost::Bound::kMemory:
      return "bandwidth";
    case cost::Bound::kCompute:
      return "compute";
    case cost::Bound::kCommunication:
      return "communication";
    case cost::Bound::kOverhead:
      return "overhead";
  }
  return "?";
}

const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::kExact:
      return "exact";
    case Tier::kModelled:
      return "modelled";
    case Tier::kCalibrated:
      return "calibrated";
    case Tier::kGiven:
      return "given";
  }
  return "?";
}

Planner::Planner() : stages_(std::make_unique<Stages>()) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

Result<Evaluation> Planner::evaluate(const Scenario& scenario) {
  Evaluation out;
  ULLAGE_TRY(out.settings, check_scenario(scenario));
  ULLAGE_TRY(const Stages::Found parts, stages_->find(scenario, out.settings));
  out.budget = budget_numbers(scenario, parts);
  const Bytes pool = out.budget.kv_pool.bytes;
  shorten_to_pool(scenario, parts, pool, out.settings);
  out.capacity = capacity_of(scenario, out.settings, parts, pool);
  if (pool.value <= 0) {
    out.fit = Fit::kWeightsTooLarge;
    out.short_by = Bytes(-pool.value);
  } else if (out.capacity.expected_requests < 1) {
    out.fit = Fit::kRequestTooLarge;
    const Capacity& c = out.capacity;
    out.short_by = Bytes(std::max<int64_t>(
        0, saturating_add(c.request_block_bytes, c.bytes_per_block) - saturating_mul(c.num_blocks, c.bytes_per_block)));
  }
  choose_running(scenario, out);
  if (!parts.cost->model) {
    out.time_unknown = parts.cost->model.error().to_string();
    return out;
  }
  out.timing = timing_of(scenario, out.settings, parts, out.running);
  if (parts.model->loaded->expert_pick_share > 0 && out.running > 0) {
    out.experts_touched = cost::expected_experts(1, parts.model->loaded->expert_pick_share, out.running);
  }
  fill_money_and_load(scenario, out);
  return out;
}

Result<Planner::Parts> Planner::parts(const Scenario& scenario) {
  ULLAGE_TRY(const Settings settings, check_scenario(scenario));
  ULLAGE_TRY(const Stages::Found found, stages_->find(scenario, settings));
  memory::MemoryBudget& budget = stages_->explained(*found.budget);
  return Parts{.shape = &found.model->loaded->shape,
               .layout = &found.model->layout,
               .budget = &budget,
               .cost_model = found.cost->model ? &*found.cost->model : nullptr};
}

Result<Crossovers> Planner::crossovers(const Scenario& scenario) {
  ULLAGE_TRY(const Evaluation evaluation, evaluate(scenario));
  ULLAGE_TRY(const Stages::Found found, stages_->find(scenario, evaluation.settings));
  if (!found.cost->model) return found.cost->model.error();
  return crossovers_of(scenario, evaluation.settings, found, ceil_div(evaluation.running, scenario.parallelism.data));
}

Result<StepAnswer> Planner::step(const Scenario& scenario, std::span<const cost::WorkItem> items) {
  ULLAGE_TRY(const Settings settings, check_scenario(scenario));
  ULLAGE_TRY(const Stages::Found found, stages_->find(scenario, settings));
  if (!found.cost->model) return found.cost->model.error();
  return step_answer(*found.cost->model, items);
}

Result<Evaluation> evaluate(const Scenario& scenario) {
  Planner planner;
  return planner.evaluate(scenario);
}

}  // namespace ullage::plan
