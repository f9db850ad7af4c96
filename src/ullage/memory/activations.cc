#include "ullage/memory/activations.h"

#include <algorithm>

namespace ullage::memory {
namespace {

// Pixels of the images that fill a step: 4.7 kB (Pixtral: 28 x 28 pixels) to 18.8 kB (Gemma 3: 896 x 896 pixels for
// 256) for each token an image becomes.
constexpr double kPixelBytesPerToken = 8192;
// Beyond this nothing fits anywhere, and sums of such terms stay far from overflow.
constexpr double kLargest = 1e17;

// The two buffers of a fused expert kernel: gate and up of every chosen expert, and their outputs at the hidden width.
double expert_workspace(const ModelMemory& model, double tokens, double ranks) {
  if (model.expert_size == 0 || model.are_experts_mxfp4) return 0;
  const double hidden = static_cast<double>(model.expert_hidden_size);
  const double inner = static_cast<double>(model.expert_size) / ranks;
  const double outer = inner * (model.are_experts_gated ? 2 : 1);
  const double elements = std::max(inner, hidden) + std::max(outer, hidden);
  return tokens * static_cast<double>(model.experts_per_token) * elements * static_cast<double>(model.element_bytes);
}

double feed_forward(const ActivationRule& rule, const ModelMemory& model, double tokens, double ranks) {
  const double element = static_cast<double>(model.element_bytes);
  // Gate and up together, and their product; INT8 inputs of the down projection beside it.
  const double bytes = (model.is_gated ? 3 : 2) * element + (model.has_int8_inputs ? 1 : 0);
  const double hidden = rule.hidden_copies * static_cast<double>(model.hidden_size) * element;
  return tokens * (bytes * static_cast<double>(model.intermediate_size) / ranks + hidden);
}

double sampler(const ActivationRule& rule, const ModelMemory& model, double requests) {
  // Logits of a model in F32 are not copied to F32.
  const double bytes = rule.logit_bytes - (model.element_bytes == 4 ? 2 : 0);
  const double programs = std::min(static_cast<double>(rule.sampler_programs), requests);
  return static_cast<double>(model.vocab_size) * (bytes * requests + 4 * programs);
}

}  // namespace

ActivationParts activation_peak(const ActivationRule& rule, const ModelMemory& model, const ActivationInput& input) {
  const double tokens = static_cast<double>(input.num_tokens);
  const double hidden = static_cast<double>(model.hidden_size);
  const double element = static_cast<double>(model.element_bytes);
  const double ranks = static_cast<double>(std::max<int64_t>(1, input.tensor_parallel));
  ActivationParts parts;
  parts.constant = static_cast<double>(rule.constant.value);
  if (rule.hidden_bytes > 0) {
    parts.hidden = rule.hidden_bytes * tokens * hidden;
  } else if (rule.logit_bytes > 0) {
    const double requests = static_cast<double>(std::min(input.max_num_seqs, input.num_tokens));
    if (input.samples) parts.sampler = sampler(rule, model, requests);
    parts.hidden = element * hidden * (tokens + (input.samples ? requests : 0));
  }
  if (rule.hidden_copies > 0) parts.feed_forward = feed_forward(rule, model, tokens, ranks);
  if (rule.keeps_expert_workspace) parts.expert_workspace = expert_workspace(model, tokens, ranks);
  if (rule.hidden_copies > 0 && model.has_tower) {
    parts.tower_outputs = tokens * (element * hidden + kPixelBytesPerToken);
  }
  parts.is_sampler_larger = parts.sampler + parts.hidden >= parts.feed_forward;
  const double peak = std::max(parts.sampler + parts.hidden, parts.feed_forward);
  const double total = parts.constant + parts.expert_workspace + parts.tower_outputs + peak;
  parts.total = Bytes(static_cast<int64_t>(std::min(total, kLargest)));
  return parts;
}

}  // namespace ullage::memory
