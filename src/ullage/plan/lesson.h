// The idealised engine of the lessons on the KV cache (profile "lesson"): a device's nominal size read as GiB, requests
// in one piece of prompt + output tokens, every weight read in every step, no blocks and no overheads. Its activation
// reserve and efficiencies are inputs; these are its defaults. Internal to plan/.
#pragma once

#include "ullage/cost/step_cost.h"
#include "ullage/model/model_shape.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

inline constexpr double kLessonBandwidthEfficiency = 0.8;
inline constexpr double kLessonMatmulEfficiency = 0.55;

// Weights of one rank: parameters x bytes, all of them.
double lesson_weight_bytes(const model::ModelShape& shape, const Scenario& scenario);

// Makes a model that counts all parameters (StepCostOptions) read `weight_bytes` in a step, whatever its matrices are
// stored in, and write nothing to the cache.
void idealise(double weight_bytes, cost::StepCostModel& model);

}  // namespace ullage::plan
