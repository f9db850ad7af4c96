// The parts of an evaluation, each from plain numbers. Internal to plan/.
#pragma once

#include <cstdint>
#include <span>

#include "ullage/cost/step_cost.h"
#include "ullage/plan/evaluate.h"
#include "ullage/plan/stages.h"

namespace ullage::plan {

BudgetNumbers budget_numbers(const Scenario& scenario, const Stages::Found& parts);
// The layout's answers for a pool. REQUIRES: budget_numbers' kv_pool.
Capacity capacity_of(const Scenario& scenario, const Settings& settings, const Stages::Found& parts, Bytes kv_pool);
// `ullage serve` without --max-model-len takes what its pool holds: the same rule (memory/pool_size.h).
void shorten_to_pool(const Scenario& scenario, const Stages::Found& parts, Bytes kv_pool, Settings& settings);
// Whole requests of `num_tokens` that `num_blocks` hold, a shared prefix of `shared_tokens` kept once.
int64_t requests_in(const Scenario& scenario, const ModelPart& model, int64_t num_blocks, int64_t num_tokens,
                    int64_t shared_tokens);
// Blocks of one request of `num_tokens` on the way of decoding.
int64_t decoding_blocks(const Scenario& scenario, const ModelPart& model, int64_t num_tokens);
// Tokens of the prefix that are found in the cache rather than computed, per request.
int64_t cached_prefix_tokens(const Scenario& scenario, const ModelPart& model);

// All replicas together run `total_running` requests at once. REQUIRES: parts.cost->model has a value.
Timing timing_of(const Scenario& scenario, const Settings& settings, const Stages::Found& parts, int64_t total_running);
StepAnswer step_answer(const cost::StepCostModel& model, std::span<const cost::WorkItem> items);
// Mean tokens that one step of speculation gives: Leviathan et al. 2023, equation 1.
double tokens_per_step(int64_t num_drafted, double acceptance_rate);
Crossovers crossovers_of(const Scenario& scenario, const Settings& settings, const Stages::Found& parts,
                         int64_t running);
// Position at which a decode step is priced: the mean over the output.
int64_t decode_position(const Scenario& scenario, const Settings& settings);

}  // namespace ullage::plan
