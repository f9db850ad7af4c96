#include "ullage/plan/lesson.h"

#include <algorithm>
#include <variant>

#include "ullage/plan/overrides.h"

namespace ullage::plan {
namespace {

// Scores and the weighted sum of values: a multiply and an add for each head's elements, twice.
double flops_per_pair(const model::LayerShape& layer) {
  if (const auto* attention = std::get_if<model::Attention>(&layer.mixer)) {
    const int64_t value_dim = attention->value_dim > 0 ? attention->value_dim : attention->head_dim;
    return 2.0 * static_cast<double>(attention->num_heads) * static_cast<double>(attention->head_dim + value_dim);
  }
  if (const auto* latent = std::get_if<model::LatentAttention>(&layer.mixer)) {
    const int64_t key_dim = latent->kv_lora_rank + latent->qk_rope_head_dim;
    return 2.0 * static_cast<double>(latent->num_heads) * static_cast<double>(key_dim + latent->kv_lora_rank);
  }
  return 0;
}

int64_t reach_of(const model::LayerShape& layer) {
  const auto* attention = std::get_if<model::Attention>(&layer.mixer);
  if (attention == nullptr) return 0;
  return std::max(attention->sliding_window, attention->chunk);
}

}  // namespace

double lesson_weight_bytes(const model::ModelShape& shape, const Scenario& scenario) {
  const auto parameters = static_cast<double>(model::count_parameters(shape).total());
  const auto ranks = static_cast<double>(scenario.parallelism.tensor * scenario.parallelism.pipeline);
  return parameters * ideal_bytes_per_parameter(*scenario.shape, scenario.weights) / ranks;
}

cost::StepCostModel lesson_cost_model(const model::ModelShape& shape, const Scenario& scenario,
                                      const RequestShape& kept, const cost::Efficiency& efficiency) {
  const hardware::Device& device = *scenario.device;
  const auto tensor = static_cast<double>(scenario.parallelism.tensor);
  const auto stages = static_cast<double>(scenario.parallelism.pipeline);
  const auto parameters = static_cast<double>(model::count_parameters(shape).total());
  cost::StepCostModel out;
  out.layer_weight_bytes = lesson_weight_bytes(shape, scenario);
  out.layer_flops_per_token = 2 * parameters / (tensor * stages);
  out.layer_seconds_per_token = out.layer_flops_per_token / device.flops.bf16;
  out.attention_flops_per_second = device.flops.bf16;
  out.bytes_per_second = device.bandwidth;
  out.linear.push_back(cost::LinearTraffic{out.layer_weight_bytes, out.layer_flops_per_token, device.flops.bf16});
  out.efficiency = cost::resolved(efficiency);
  const auto num_layers = static_cast<double>(shape.layers.size());
  if (tensor > 1) {
    // Two all-reduces a layer of hidden_size 16-bit numbers a token; a ring sends 2 (n - 1) / n of them.
    out.num_reduces = 2 * num_layers / stages;
    out.reduce_bytes_per_token =
        out.num_reduces * 2 * static_cast<double>(shape.hidden_size) * 2 * (tensor - 1) / tensor;
    out.link_bytes_per_second = device.link_bandwidth > 0 ? device.link_bandwidth : device.host_bandwidth;
  }
  out.kv.reserve(1 + kept.windows.size());
  cost::KvTraffic full;
  full.bytes_per_token = static_cast<double>(kept.bytes_per_token) / stages;
  full.fixed_read_bytes = static_cast<double>(kept.fixed_bytes) / stages;
  full.flops_per_second = device.flops.bf16;
  for (const model::LayerShape& layer : shape.layers) {
    if (reach_of(layer) == 0) full.flops_per_pair += flops_per_pair(layer) / (tensor * stages);
  }
  full.prefill_flops_per_pair = full.flops_per_pair;
  out.kv.push_back(full);
  for (const WindowedBytes& window : kept.windows) {
    cost::KvTraffic traffic;
    traffic.bytes_per_token = static_cast<double>(window.bytes_per_token) / stages;
    traffic.reach = window.reach;
    traffic.flops_per_second = device.flops.bf16;
    for (const model::LayerShape& layer : shape.layers) {
      if (reach_of(layer) == window.reach) traffic.flops_per_pair += flops_per_pair(layer) / (tensor * stages);
    }
    traffic.prefill_flops_per_pair = traffic.flops_per_pair;
    out.kv.push_back(traffic);
  }
  return out;
}

}  // namespace ullage::plan
