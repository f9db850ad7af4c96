#include "ullage/cost/step_cost.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "ullage/base/check.h"

namespace ullage::cost {
namespace {

double peak(const hardware::FlopsPerSecond& flops, model::WeightFormat::Compute compute) {
  return compute == model::WeightFormat::Compute::kF32 ? flops.fp32 : flops.bf16;
}

}  // namespace

Result<StepCostModel> make_step_cost_model(const model::ModelShape& shape, const hardware::Device& device,
                                           const StepCostOptions& options) {
  StepCostModel out;
  KvTraffic traffic;
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const auto* attention = std::get_if<model::Attention>(&shape.layers[i].mixer);
    if (attention == nullptr || attention->sliding_window > 0 || attention->chunk > 0) {
      return Error{ErrorCode::kUnsupported, "a step's cost is known for full attention only",
                   fmt::format("layer {}", i)};
    }
    const int64_t value_dim = attention->value_dim > 0 ? attention->value_dim : attention->head_dim;
    traffic.bytes_per_token +=
        static_cast<double>(attention->num_kv_heads * (model::kv_head_bytes(options.kv_dtype, attention->head_dim) +
                                                       model::kv_head_bytes(options.kv_dtype, value_dim)));
    // Scores q.k and the weighted sum over v: a multiply and an add for each head and element.
    traffic.flops_per_pair +=
        2.0 * static_cast<double>(attention->num_heads) * static_cast<double>(attention->head_dim + value_dim);
  }
  traffic.write_bytes = traffic.bytes_per_token;
  out.kv.push_back(traffic);
  for (const model::WeightMatrix& matrix : model::weight_matrices(shape)) {
    const auto bytes = static_cast<double>(model::stored_bytes(matrix));
    const double flops = matrix.is_multiplied ? 2.0 * static_cast<double>(model::num_parameters(matrix)) : 0.0;
    const double rate = peak(device.flops, matrix.format.compute);
    if (matrix.role == model::WeightRole::kEmbedding) {
      out.embedding_row_bytes = bytes / static_cast<double>(matrix.rows);
      if (!shape.has_tied_embeddings) continue;
    }
    if (!(rate > 0)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("device \"{}\" has no FLOP/s for {}", device.id, matrix.name), "--device"};
    }
    if (matrix.role == model::WeightRole::kEmbedding || matrix.role == model::WeightRole::kOutputHead) {
      out.head_weight_bytes = bytes;
      out.head_flops_per_sample = 2.0 * static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns);
      out.head_seconds_per_sample = out.head_flops_per_sample / rate;
    } else {
      out.layer_weight_bytes += bytes;
      out.layer_flops_per_token += flops;
      out.layer_seconds_per_token += flops / rate;
    }
  }
  out.attention_flops_per_second = shape.weight_dtype == model::DType::kF32 ? device.flops.fp32 : device.flops.bf16;
  out.bytes_per_second = device.bandwidth;
  out.efficiency = options.efficiency;
  if (!(out.attention_flops_per_second > 0) || !(out.bytes_per_second > 0)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("device \"{}\" has no bandwidth or no FLOP/s", device.id),
                 "--device"};
  }
  return out;
}

StepCost step_cost(const StepCostModel& model, std::span<const WorkItem> items) {
  StepCost cost;
  double num_tokens = 0;
  double num_samples = 0;
  double num_pairs = 0;
  ULLAGE_DCHECK(model.kv.size() == 1);
  const KvTraffic& kv = model.kv.front();
  for (const WorkItem& item : items) {
    const auto first = static_cast<double>(item.first_position);
    const auto each = static_cast<double>(item.num_tokens);
    const auto requests = static_cast<double>(item.count);
    num_tokens += requests * each;
    if (item.is_sampled) num_samples += requests;
    // The token at position p attends to p + 1 positions: the sum over [first, first + each).
    num_pairs += requests * (each * first + each * (each + 1) / 2);
    // Keys and values are streamed once an item: a kernel that keeps its queries on chip (FlashAttention, Dao et al.
    // 2022) needs no more, and those of its own tokens come from chip, too, but are written.
    cost.kv_read_bytes += requests * first * kv.bytes_per_token;
    cost.kv_write_bytes += requests * each * kv.write_bytes;
  }
  if (num_tokens == 0) return cost;
  cost.weight_bytes = model.layer_weight_bytes + num_tokens * model.embedding_row_bytes;
  if (num_samples > 0) cost.weight_bytes += model.head_weight_bytes;
  cost.linear_flops = num_tokens * model.layer_flops_per_token + num_samples * model.head_flops_per_sample;
  cost.attention_flops = num_pairs * kv.flops_per_pair;
  const Efficiency& efficiency = model.efficiency;
  cost.memory_seconds =
      (cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes) / (model.bytes_per_second * efficiency.bandwidth);
  cost.compute_seconds =
      (num_tokens * model.layer_seconds_per_token + num_samples * model.head_seconds_per_sample) / efficiency.matmul +
      cost.attention_flops /
          (model.attention_flops_per_second * (efficiency.attention > 0 ? efficiency.attention : efficiency.matmul));
  cost.overhead_seconds = efficiency.step_overhead;
  cost.bound = cost.compute_seconds > cost.memory_seconds ? Bound::kCompute : Bound::kMemory;
  cost.seconds =
      std::max(cost.memory_seconds, cost.compute_seconds) + cost.communication_seconds + cost.overhead_seconds;
  return cost;
}

}  // namespace ullage::cost
