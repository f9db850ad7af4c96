#include "ullage/memory/model_memory.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "ullage/base/check.h"
#include "ullage/model/loaded_weights.h"

namespace ullage::memory {
namespace {

using model::WeightMatrix;
using model::WeightRole;

void add(WeightGroup& group, WeightMatrix matrix) {
  // Of a name only this matters to rank_part; what is left is short enough to be copied without an allocation.
  matrix.name = matrix.name.find("down_proj") != std::string::npos ? "down_proj" : "";
  matrix.layer = -1;
  for (WeightGroup::Entry& entry : group.entries) {
    if (entry.matrix == matrix) {
      ++entry.times;
      return;
    }
  }
  group.entries.push_back({std::move(matrix), 1});
}

bool is_same(const WeightGroup& a, const WeightGroup& b) {
  return std::ranges::equal(a.entries, b.entries, [](const WeightGroup::Entry& x, const WeightGroup::Entry& y) {
    return x.times == y.times && x.matrix == y.matrix;
  });
}

// Turns each layer's matrices into one of few kinds.
void set_kinds(ModelMemory& memory, std::vector<WeightGroup> layers) {
  memory.layer_kind.reserve(layers.size());
  for (WeightGroup& layer : layers) {
    size_t kind = 0;
    while (kind < memory.layer_kinds.size() && !is_same(memory.layer_kinds[kind], layer)) ++kind;
    if (kind == memory.layer_kinds.size()) memory.layer_kinds.push_back(std::move(layer));
    memory.layer_kind.push_back(static_cast<int32_t>(kind));
  }
}

void set_weights(ModelMemory& memory, const model::ModelShape& shape) {
  std::vector<WeightGroup> layers(shape.layers.size());
  for (WeightMatrix& matrix : model::weight_matrices(shape)) {
    if (auto copy = model::absorbed_copy(matrix, shape.weight_dtype)) {
      const auto layer = static_cast<size_t>(matrix.layer);
      add(matrix.role == WeightRole::kDraft || layer >= layers.size() ? memory.draft : layers[layer], *std::move(copy));
    }
    if (matrix.role == WeightRole::kDraft) {
      add(memory.draft, std::move(matrix));
    } else if (matrix.layer >= 0) {
      if (matrix.role == WeightRole::kFfn && matrix.format.compute == model::WeightFormat::Compute::kINT8) {
        memory.has_int8_inputs = true;
      }
      const auto layer = static_cast<size_t>(matrix.layer);
      ULLAGE_CHECK(layer < layers.size());
      add(layers[layer], std::move(matrix));
    } else if (matrix.role == WeightRole::kEmbedding) {
      add(memory.embedding, std::move(matrix));
    } else if (matrix.role == WeightRole::kOutputHead || matrix.role == WeightRole::kNorm) {
      add(memory.head, std::move(matrix));
    } else {
      const std::string_view name = matrix.name;
      memory.has_tower = memory.has_tower || name.find("vis") != std::string_view::npos ||
                         name.find("image") != std::string_view::npos || name.find("patch") != std::string_view::npos;
      add(memory.towers, std::move(matrix));
    }
  }
  set_kinds(memory, std::move(layers));
}

void set_ffn_widths(ModelMemory& memory, const model::LayerShape& layer) {
  if (const auto* dense = std::get_if<model::DenseFfn>(&layer.ffn)) {
    if (dense->intermediate_size > memory.intermediate_size) memory.is_gated = dense->is_gated;
    memory.intermediate_size = std::max(memory.intermediate_size, dense->intermediate_size);
  } else if (const auto* moe = std::get_if<model::MoeFfn>(&layer.ffn)) {
    memory.intermediate_size =
        std::max({memory.intermediate_size, moe->shared_intermediate_size, moe->dense_intermediate_size});
    if (moe->num_experts_per_token * moe->intermediate_size <= memory.experts_per_token * memory.expert_size) return;
    memory.expert_size = moe->intermediate_size;
    memory.experts_per_token = moe->num_experts_per_token;
    memory.expert_hidden_size = moe->latent_size > 0 ? moe->latent_size : memory.hidden_size;
    memory.are_experts_gated = moe->is_gated;
  }
}

// Bytes of a group on one rank, into the field that its role belongs to.
void add_bytes(RankWeights& weights, const WeightGroup& group, const model::Parallelism& parallelism, int64_t times) {
  for (const WeightGroup::Entry& entry : group.entries) {
    const int64_t bytes =
        model::stored_bytes(model::as_loaded(model::rank_part(entry.matrix, parallelism))) * entry.times * times;
    weights.total.value += bytes;
    switch (entry.matrix.role) {
      case WeightRole::kEmbedding:
      case WeightRole::kOutputHead:
        weights.embedding.value += bytes;
        break;
      case WeightRole::kExperts:
        weights.experts.value += bytes;
        break;
      case WeightRole::kDraft:
      case WeightRole::kOther:
        weights.other.value += bytes;
        break;
      default:
        weights.layers.value += bytes;
    }
  }
}

}  // namespace

ModelMemory make_model_memory(const model::ModelShape& shape) {
  ModelMemory memory;
  memory.has_tied_embeddings = shape.has_tied_embeddings;
  memory.hidden_size = shape.hidden_size;
  memory.vocab_size = shape.vocab_size;
  memory.element_bytes = shape.weight_dtype == model::DType::kF32 ? 4 : 2;
  memory.are_experts_mxfp4 = shape.quantization.method == "mxfp4";
  memory.rotary_bytes = model::rotary_table_bytes(shape);
  set_weights(memory, shape);
  for (const model::LayerShape& layer : shape.layers) set_ffn_widths(memory, layer);
  return memory;
}

RankWeights stage_weights(const ModelMemory& model, const model::Parallelism& parallelism, int64_t stage,
                          bool with_draft) {
  RankWeights weights;
  const auto num_layers = static_cast<int64_t>(model.layer_kind.size());
  const model::LayerRange range = model::stage_layers(num_layers, parallelism.pipeline, stage);
  const bool is_last = stage + 1 == parallelism.pipeline;
  for (size_t kind = 0; kind < model.layer_kinds.size(); ++kind) {
    const auto begin = model.layer_kind.begin();
    const int64_t times = std::count(begin + static_cast<std::ptrdiff_t>(range.begin),
                                     begin + static_cast<std::ptrdiff_t>(range.end), static_cast<int32_t>(kind));
    if (times > 0) add_bytes(weights, model.layer_kinds[kind], parallelism, times);
  }
  if (stage == 0 || (is_last && model.has_tied_embeddings)) add_bytes(weights, model.embedding, parallelism, 1);
  if (stage == 0) add_bytes(weights, model.towers, parallelism, 1);
  if (is_last) add_bytes(weights, model.head, parallelism, 1);
  if (is_last && with_draft) add_bytes(weights, model.draft, parallelism, 1);
  return weights;
}

RankWeights rank_weights(const ModelMemory& model, const model::Parallelism& parallelism, bool with_draft) {
  RankWeights most;
  for (int64_t stage = 0; stage < parallelism.pipeline; ++stage) {
    const RankWeights weights = stage_weights(model, parallelism, stage, with_draft);
    if (weights.total > most.total) most = weights;
  }
  return most;
}

RankWeights rank_weights(const model::ModelShape& shape, const model::Parallelism& parallelism, bool with_draft) {
  return rank_weights(make_model_memory(shape), parallelism, with_draft);
}

}  // namespace ullage::memory
