#include "ullage/memory/budget.h"

#include <cmath>

#include <fmt/format.h>

#include "ullage/base/check.h"

namespace ullage::memory {

RankWeights rank_weights(const model::ModelShape& shape, const model::Parallelism& parallelism, bool with_draft) {
  RankWeights weights;
  for (const model::WeightMatrix& matrix : model::weight_matrices(shape)) {
    if (matrix.role == model::WeightRole::kDraft && !with_draft) continue;
    const Bytes bytes(model::stored_bytes(model::rank_part(matrix, parallelism)));
    weights.total = weights.total + bytes;
    switch (matrix.role) {
      case model::WeightRole::kEmbedding:
      case model::WeightRole::kOutputHead:
        weights.embedding = weights.embedding + bytes;
        break;
      case model::WeightRole::kExperts:
        weights.experts = weights.experts + bytes;
        break;
      case model::WeightRole::kDraft:
      case model::WeightRole::kOther:
        weights.other = weights.other + bytes;
        break;
      default:
        weights.layers = weights.layers + bytes;
    }
  }
  return weights;
}

Result<MemoryBudget> make_budget(const BudgetInput& input) {
  ULLAGE_CHECK(input.shape != nullptr && input.device != nullptr && input.profile != nullptr);
  const double utilization =
      input.gpu_memory_utilization == 0 ? input.profile->gpu_memory_utilization : input.gpu_memory_utilization;
  if (!(utilization > 0 && utilization <= 1)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected a share over 0 and up to 1, found {}", utilization),
                 "--gpu-memory-utilization"};
  }
  MemoryBudget budget;
  budget.capacity = input.device->usable_memory;
  budget.requested = Bytes(static_cast<int64_t>(std::ceil(static_cast<double>(budget.capacity.value) * utilization)));
  budget.weights.bytes = rank_weights(*input.shape, input.parallelism, input.with_draft).total;
  budget.weights.tier = Tier::kExact;
  budget.are_graphs_subtracted = input.profile->subtracts_graphs;
  if (input.activation_reserve) budget.activations.bytes = *input.activation_reserve;
  budget.kv_pool.bytes = input.kv_memory ? *input.kv_memory
                                         : budget.requested - budget.weights.bytes - budget.activations.bytes -
                                               budget.graphs.bytes - budget.runtime.bytes;
  return budget;
}

}  // namespace ullage::memory
