// The activation peak: what an engine keeps back for the largest forward pass that it lets happen.
#pragma once

#include <cstdint>

#include "ullage/base/units.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/memory/model_memory.h"
#include "ullage/model/parallelism.h"

namespace ullage::memory {

struct ActivationInput {
  int64_t num_tokens = 0;  // of the largest step
  int64_t max_num_seqs = 0;
  int64_t tensor_parallel = 1;
  bool samples = true;  // the stage has the output head
};

// In bytes; doubles, since products of counts that a user may give exceed 63 bits.
struct ActivationParts {
  double sampler = 0;       // logits in their copies
  double hidden = 0;        // of all tokens, and of those that are sampled
  double feed_forward = 0;  // intermediate widths and copies of hidden
  double expert_workspace = 0;
  double tower_outputs = 0;  // encoded images and their pixels, kept while the language model is profiled
  double constant = 0;
  bool is_sampler_larger = true;
  Bytes total;  // constant + workspace + tower + the larger of (sampler + hidden) and feed_forward
};

ActivationParts activation_peak(const ActivationRule& rule, const ModelMemory& model, const ActivationInput& input);

}  // namespace ullage::memory
