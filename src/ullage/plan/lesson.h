// The idealised engine of the lessons on the KV cache (profile "lesson"): a device's nominal size read as GiB, requests
// in one piece of prompt + output tokens, every weight read in every step, no blocks and no overheads. Its activation
// reserve and efficiencies are inputs; these are its defaults.
#pragma once

#include "ullage/base/units.h"
#include "ullage/cost/step_cost.h"
#include "ullage/hardware/device.h"
#include "ullage/memory/budget.h"
#include "ullage/plan/request_bytes.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

inline constexpr double kLessonBandwidthEfficiency = 0.8;
inline constexpr double kLessonMatmulEfficiency = 0.55;

// "80 GB" is 80 GiB, as is "141 GB" 141 GiB: the number on the box.
Bytes lesson_capacity(const hardware::Device& device);
// Workspace of the largest forward pass: 0.53 GiB and 17 bytes for each of 8,192 tokens x hidden_size.
Bytes lesson_activations(const model::ModelShape& shape);
// Weights of one rank: parameters x bytes, all of them.
double lesson_weight_bytes(const model::ModelShape& shape, const Scenario& scenario);

memory::MemoryBudget lesson_budget(const model::ModelShape& shape, const Scenario& scenario, const Settings& settings);

// Everything is multiplied at the BF16 rate.
cost::StepCostModel lesson_cost_model(const model::ModelShape& shape, const Scenario& scenario,
                                      std::span<const memory::KvLayers> layers, const memory::KvLayoutOptions& options,
                                      const cost::Efficiency& efficiency);

}  // namespace ullage::plan
