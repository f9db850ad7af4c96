#include "ullage/model/parallelism.h"

#include <algorithm>

#include "ullage/base/units.h"

namespace ullage::model {

Result<void> check_parallelism(const ModelShape& /*shape*/, const Parallelism& parallelism) {
  if (parallelism.tensor >= 1 && parallelism.pipeline >= 1 && parallelism.data >= 1) return {};
  return Error{ErrorCode::kInvalidArgument, "sizes of parallelism are at least 1", "parallelism"};
}

WeightMatrix rank_part(const WeightMatrix& matrix, const Parallelism& parallelism) {
  WeightMatrix part = matrix;
  const int64_t n = parallelism.tensor;
  switch (matrix.split) {
    case Split::kReplicated:
      break;
    case Split::kRows:
    case Split::kVocabulary:
      part.rows = ceil_div(matrix.rows, n);
      break;
    case Split::kColumns:
      part.columns = ceil_div(matrix.columns, n);
      break;
    case Split::kKvHeads:
      part.num_heads = std::max<int64_t>(1, matrix.num_heads / n);
      part.rows = matrix.rows / std::max<int64_t>(1, matrix.num_heads) * part.num_heads;
      break;
    case Split::kExperts:
      if (parallelism.has_expert_parallel) {
        part.count = ceil_div(matrix.count, n * parallelism.data);
      } else {
        part.rows = ceil_div(matrix.rows, n);
      }
      break;
  }
  return part;
}

LayerRange stage_layers(int64_t num_layers, int64_t num_stages, int64_t stage) {
  const int64_t each = num_layers / num_stages;
  return {stage * each, stage + 1 == num_stages ? num_layers : (stage + 1) * each};
}

}  // namespace ullage::model
