// A model with a plan's "what if" made to it: other KV heads, other weights, adapters.
#pragma once

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/model/model_shape.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

// kUnsupported names a weight format that is not known. REQUIRES: check_scenario passed.
Result<model::ModelShape> with_overrides(const Scenario& scenario);

// Of LoRA adapters on one rank: A and B of every matrix of attention, state and dense feed-forward, in 16 bits. Routed
// experts carry none.
Bytes adapter_bytes(const model::ModelShape& shape, const model::Parallelism& parallelism, const Adapters& adapters);

// Bytes of a parameter in an idealised format: 4, 2, 1, 0.5; as stored: of the checkpoint's dtype.
double ideal_bytes_per_parameter(const model::ModelShape& shape, WeightPrecision precision);

}  // namespace ullage::plan
