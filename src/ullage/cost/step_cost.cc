#include "ullage/cost/step_cost.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

namespace ullage::cost {
namespace {

double bytes_per_parameter(model::DType dtype) {
  const model::DTypeInfo& format = model::info(dtype);
  return static_cast<double>(format.block_bytes) / static_cast<double>(format.block_elements);
}

}  // namespace

Result<StepCostModel> make_step_cost_model(const model::ModelShape& shape, const hardware::Device& device,
                                           model::DType weight_dtype, model::DType kv_dtype) {
  StepCostModel out;
  double kv_elements = 0;
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const model::KvSpec spec = model::kv_spec(shape.layers[i]);
    const auto* kv = std::get_if<model::FullAttentionKv>(&spec);
    if (kv == nullptr) {
      return Error{ErrorCode::kUnsupported, "a step's cost is known for full attention only",
                   fmt::format("layer {}", i)};
    }
    kv_elements += static_cast<double>(kv->num_kv_heads) * static_cast<double>(kv->key_dim + kv->value_dim);
    const auto& attention = std::get<model::Attention>(shape.layers[i].mixer);
    // Scores q.k and the weighted sum over v: a multiply and an add for each head and element, twice.
    out.attention_flops_per_pair +=
        4.0 * static_cast<double>(attention.num_heads) * static_cast<double>(attention.head_dim);
  }
  const model::ParameterCounts counts = model::count_parameters(shape);
  const double parameter_bytes = bytes_per_parameter(weight_dtype);
  const double head_parameters = static_cast<double>(shape.vocab_size) * static_cast<double>(shape.hidden_size);
  const auto layer_parameters = static_cast<double>(counts.attention + counts.ffn);
  out.layer_weight_bytes = (layer_parameters + static_cast<double>(counts.norms)) * parameter_bytes;
  out.head_weight_bytes = head_parameters * parameter_bytes;
  out.embedding_row_bytes = static_cast<double>(shape.hidden_size) * parameter_bytes;
  out.kv_bytes_per_token = kv_elements * bytes_per_parameter(kv_dtype);
  out.layer_flops_per_token = 2.0 * layer_parameters;
  out.head_flops_per_sample = 2.0 * head_parameters;
  out.flops_per_second = weight_dtype == model::DType::kF32 ? device.flops.fp32 : device.flops.bf16;
  out.bytes_per_second = device.bandwidth;
  if (!(out.flops_per_second > 0) || !(out.bytes_per_second > 0)) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("device \"{}\" has no bandwidth or no FLOP/s for {}", device.id, model::info(weight_dtype).name),
        "--device"};
  }
  return out;
}

StepCost step_cost(const StepCostModel& model, std::span<const WorkItem> items) {
  StepCost cost;
  int64_t num_tokens = 0;
  int64_t num_samples = 0;
  double num_pairs = 0;
  for (const WorkItem& item : items) {
    const auto first = static_cast<double>(item.first_position);
    const auto count = static_cast<double>(item.num_tokens);
    num_tokens += item.num_tokens;
    num_samples += item.is_sampled;
    // The token at position p attends to p + 1 positions: the sum over [first, first + count).
    num_pairs += count * first + count * (count + 1) / 2;
    // Keys and values are streamed once an item: a kernel that keeps its queries on chip (FlashAttention, Dao et al.
    // 2022) needs no more, and those of its own tokens come from chip, too, but are written.
    cost.kv_read_bytes += first * model.kv_bytes_per_token;
    cost.kv_write_bytes += count * model.kv_bytes_per_token;
  }
  if (num_tokens == 0) return cost;
  const auto tokens = static_cast<double>(num_tokens);
  const auto samples = static_cast<double>(num_samples);
  cost.weight_bytes = model.layer_weight_bytes + tokens * model.embedding_row_bytes;
  if (num_samples > 0) cost.weight_bytes += model.head_weight_bytes;
  cost.linear_flops = tokens * model.layer_flops_per_token + samples * model.head_flops_per_sample;
  cost.attention_flops = num_pairs * model.attention_flops_per_pair;
  cost.memory_seconds = (cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes) / model.bytes_per_second;
  cost.compute_seconds = (cost.linear_flops + cost.attention_flops) / model.flops_per_second;
  cost.bound = cost.compute_seconds > cost.memory_seconds ? Bound::kCompute : Bound::kMemory;
  cost.seconds = std::max(cost.memory_seconds, cost.compute_seconds);
  return cost;
}

}  // namespace ullage::cost
