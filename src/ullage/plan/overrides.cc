#include "ullage/plan/overrides.h"

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "ullage/base/saturating.h"
#include "ullage/model/dtype.h"
#include "ullage/model/quantization.h"
#include "ullage/model/weight_matrix.h"

namespace ullage::plan {
namespace {

void set_kv_heads(model::Attention& attention, const Scenario& scenario) {
  if (scenario.force_mha) attention.num_kv_heads = attention.num_heads;
  if (scenario.num_kv_heads > 0) attention.num_kv_heads = scenario.num_kv_heads;
}

// The names that model::quantize_as knows them by.
std::string_view quantization_name(WeightPrecision precision) {
  switch (precision) {
    case WeightPrecision::kFP8:
      return "fp8";
    case WeightPrecision::kINT8:
      return "int8";
    case WeightPrecision::kINT4:
      return "awq";
    case WeightPrecision::kFP4:
      return "nvfp4";
    default:
      return "";
  }
}

bool carries_adapter(const model::WeightMatrix& matrix) {
  if (!matrix.is_multiplied) return false;
  return matrix.role == model::WeightRole::kAttention || matrix.role == model::WeightRole::kFfn ||
         matrix.role == model::WeightRole::kSharedExperts;
}

}  // namespace

Result<model::ModelShape> with_overrides(const Scenario& scenario) {
  model::ModelShape shape = *scenario.shape;
  if (scenario.force_mha || scenario.num_kv_heads > 0) {
    for (model::LayerShape& layer : shape.layers) {
      if (auto* attention = std::get_if<model::Attention>(&layer.mixer)) set_kv_heads(*attention, scenario);
    }
    for (model::LayerShape& layer : shape.draft_layers) {
      if (auto* attention = std::get_if<model::Attention>(&layer.mixer)) set_kv_heads(*attention, scenario);
    }
  }
  if (!scenario.weight_format.empty()) {
    ULLAGE_TRY(shape.quantization, model::quantize_as(scenario.weight_format, "--weights"));
  } else if (scenario.weights != WeightPrecision::kAsStored) {
    const std::string_view name = quantization_name(scenario.weights);
    shape.quantization = {};
    if (!name.empty()) {
      ULLAGE_TRY(shape.quantization, model::quantize_as(name, "--weights"));
    }
  } else {
    shape.weight_dtype = resolve_dtype(scenario);
    return shape;
  }
  // What stays plain beside them. The cache's dtype is asked for by itself.
  if (scenario.weights == WeightPrecision::kF32) {
    shape.weight_dtype = model::DType::kF32;
  } else if (scenario.dtype) {
    shape.weight_dtype = *scenario.dtype;
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
    numbers_per_rank =
        saturating_add(numbers_per_rank, saturating_mul(part.count, saturating_add(part.rows, part.columns)));
  }
  // Kept below what a budget adds up.
  const int64_t bytes =
      saturating_mul(adapters.max_loras * adapters.max_rank * 2, numbers_per_rank) / parallelism.pipeline;
  return Bytes(std::min(bytes, int64_t{1} << 60));
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
