#include "ullage/plan/overrides.h"

#include <variant>
#include <vector>

#include "ullage/model/dtype.h"
#include "ullage/model/quantization.h"
#include "ullage/model/weight_matrix.h"

namespace ullage::plan {
namespace {

using Compute = model::WeightFormat::Compute;

void set_kv_heads(model::Attention& attention, const Scenario& scenario) {
  if (scenario.force_mha) attention.num_kv_heads = attention.num_heads;
  if (scenario.num_kv_heads > 0) attention.num_kv_heads = scenario.num_kv_heads;
}

model::Quantization quantization_of(WeightPrecision precision) {
  model::Quantization out;
  // What published checkpoints of these formats leave alone; embeddings, norms and routers stay plain by themselves.
  out.ignored = {"lm_head"};
  switch (precision) {
    case WeightPrecision::kFP8:
      out.method = "fp8";
      out.format = {.element_bits = 8, .tensor_bytes = 4, .compute = Compute::kFP8};
      break;
    case WeightPrecision::kINT8:
      out.method = "compressed-tensors";
      out.format = {
          .element_bits = 8, .group_rows = 1, .group_columns = -1, .scale_bits = 16, .compute = Compute::kINT8};
      break;
    case WeightPrecision::kINT4:
      out.method = "awq";
      out.format = {.element_bits = 4, .group_rows = 1, .group_columns = 128, .scale_bits = 16, .zero_bits = 4};
      break;
    case WeightPrecision::kFP4:
      out.method = "modelopt";
      out.format = {.element_bits = 4,
                    .group_rows = 1,
                    .group_columns = 16,
                    .scale_bits = 8,
                    .tensor_bytes = 4,
                    .compute = Compute::kFP4};
      break;
    default:
      break;
  }
  return out;
}

bool carries_adapter(const model::WeightMatrix& matrix) {
  if (!matrix.is_multiplied) return false;
  return matrix.role == model::WeightRole::kAttention || matrix.role == model::WeightRole::kFfn ||
         matrix.role == model::WeightRole::kSharedExperts;
}

}  // namespace

model::ModelShape with_overrides(const Scenario& scenario) {
  model::ModelShape shape = *scenario.shape;
  if (scenario.force_mha || scenario.num_kv_heads > 0) {
    for (model::LayerShape& layer : shape.layers) {
      if (auto* attention = std::get_if<model::Attention>(&layer.mixer)) set_kv_heads(*attention, scenario);
    }
    for (model::LayerShape& layer : shape.draft_layers) {
      if (auto* attention = std::get_if<model::Attention>(&layer.mixer)) set_kv_heads(*attention, scenario);
    }
  }
  if (scenario.weights == WeightPrecision::kAsStored) return shape;
  shape.quantization = quantization_of(scenario.weights);
  if (scenario.weights == WeightPrecision::kF32) {
    shape.weight_dtype = model::DType::kF32;
  } else if (shape.weight_dtype != model::DType::kF16) {
    shape.weight_dtype = model::DType::kBF16;
  }
  return shape;
}

Bytes adapter_bytes(const model::ModelShape& shape, const model::Parallelism& parallelism, const Adapters& adapters) {
  if (adapters.max_loras < 1) return Bytes(0);
  int64_t numbers_per_rank = 0;
  for (const model::WeightMatrix& matrix : model::weight_matrices(shape)) {
    if (!carries_adapter(matrix)) continue;
    // The divided side of a matrix is divided in its adapter, the other one whole.
    const model::WeightMatrix part = model::rank_part(matrix, parallelism);
    numbers_per_rank += part.count * (part.rows + part.columns);
  }
  return Bytes(adapters.max_loras * adapters.max_rank * numbers_per_rank * 2 / parallelism.pipeline);
}

double ideal_bytes_per_parameter(const model::ModelShape& shape, WeightPrecision precision) {
  switch (precision) {
    case WeightPrecision::kF32:
      return 4;
    case WeightPrecision::kBF16:
      return 2;
    case WeightPrecision::kFP8:
    case WeightPrecision::kINT8:
      return 1;
    case WeightPrecision::kINT4:
    case WeightPrecision::kFP4:
      return 0.5;
    case WeightPrecision::kAsStored:
      break;
  }
  const model::DTypeInfo& format = model::info(shape.weight_dtype);
  return static_cast<double>(format.block_bytes) / static_cast<double>(format.block_elements);
}

}  // namespace ullage::plan
