#include "ullage/cost/model_costs.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace ullage::cost {
namespace {

using model::WeightRole;

double bytes_of(model::DType dtype) {
  const model::DTypeInfo& format = model::info(dtype);
  return static_cast<double>(format.block_bytes) / static_cast<double>(format.block_elements);
}

MixerWork work_of(const model::Attention& attention) {
  MixerWork work;
  work.kind = MixerWork::Kind::kHeads;
  work.num_heads = attention.num_heads;
  work.num_kv_heads = attention.num_kv_heads;
  work.key_dim = attention.head_dim;
  work.value_dim = attention.value_dim > 0 ? attention.value_dim : attention.head_dim;
  work.reach = attention.sliding_window > 0 ? attention.sliding_window : attention.chunk;
  work.is_chunked = attention.sliding_window == 0 && attention.chunk > 0;
  work.has_own_kv = attention.kv_source_layer < 0;
  return work;
}

void add_latent(const model::LatentAttention& attention, std::vector<MixerWork>& out) {
  MixerWork work;
  work.kind = MixerWork::Kind::kLatent;
  work.num_heads = attention.num_heads;
  work.num_kv_heads = 1;
  work.key_dim = attention.kv_lora_rank;
  work.rope_dim = attention.qk_rope_head_dim;
  work.nope_dim = attention.qk_nope_head_dim;
  work.value_dim = attention.v_head_dim;
  if (attention.indexer) {
    work.reach = attention.indexer->top_k;
    work.is_sparse = work.reach > 0;
    MixerWork indexer;
    indexer.kind = MixerWork::Kind::kIndexer;
    indexer.num_heads = attention.indexer->num_heads;
    indexer.num_kv_heads = 1;
    indexer.key_dim = attention.indexer->head_dim;
    out.push_back(indexer);
  }
  out.push_back(work);
}

// The gated delta rule on a head's state S of dk x dv (Yang et al. 2024, equation 10): decay (1), S'k (2), the update's
// outer product (2) and its addition, S'q (2): 8 FLOPs an element with the rest.
MixerWork work_of(const model::LinearAttention& mixer) {
  MixerWork work;
  work.kind = MixerWork::Kind::kState;
  work.num_heads = mixer.num_value_heads;
  const double elements = static_cast<double>(mixer.key_head_dim) * static_cast<double>(mixer.value_head_dim);
  work.state_bytes = elements * bytes_of(mixer.state_dtype);
  work.state_flops = 8 * elements;
  const int64_t channels = 2 * mixer.num_key_heads * mixer.key_head_dim + mixer.num_value_heads * mixer.value_head_dim;
  work.conv_bytes =
      2.0 * static_cast<double>(channels) * static_cast<double>(std::max<int64_t>(0, mixer.conv_kernel - 1));
  return work;
}

// Dao, Gu 2024, equation 1: decay (1), B x (2), addition (1), C h (2) an element of the state.
MixerWork work_of(const model::StateSpace& mixer) {
  MixerWork work;
  work.kind = MixerWork::Kind::kState;
  work.num_heads = mixer.num_heads > 0 ? mixer.num_heads : mixer.inner_size;
  const double elements =
      static_cast<double>(mixer.num_heads > 0 ? mixer.head_dim * mixer.state_size : mixer.state_size);
  work.state_bytes = elements * bytes_of(mixer.state_dtype);
  work.state_flops = 6 * elements;
  const int64_t channels =
      mixer.inner_size + (mixer.num_heads > 0 ? 2 * mixer.num_groups * mixer.state_size : int64_t{0});
  work.conv_bytes =
      2.0 * static_cast<double>(channels) * static_cast<double>(std::max<int64_t>(0, mixer.conv_kernel - 1));
  return work;
}

Result<LayerKind> kind_of(const model::LayerShape& layer, int64_t encoder_len, size_t index) {
  LayerKind kind;
  kind.num_layers = 1;
  bool has_mixer = true;
  if (const auto* attention = std::get_if<model::Attention>(&layer.mixer)) {
    kind.mixers.push_back(work_of(*attention));
  } else if (const auto* latent = std::get_if<model::LatentAttention>(&layer.mixer)) {
    add_latent(*latent, kind.mixers);
  } else if (const auto* linear = std::get_if<model::LinearAttention>(&layer.mixer)) {
    kind.mixers.push_back(work_of(*linear));
  } else if (const auto* state_space = std::get_if<model::StateSpace>(&layer.mixer)) {
    kind.mixers.push_back(work_of(*state_space));
  } else if (std::holds_alternative<model::NoMixer>(layer.mixer)) {
    has_mixer = false;
  } else {
    return Error{ErrorCode::kUnsupported, "a step of this kind of layer cannot be priced yet",
                 fmt::format("layer {}", index)};
  }
  // Row-parallel outputs are summed over ranks: one for each mixer, one for the feed-forward.
  if (has_mixer) ++kind.num_reduces;
  if (layer.parallel_state_space) {
    kind.mixers.push_back(work_of(*layer.parallel_state_space));
    ++kind.num_reduces;
  }
  if (layer.cross_attention) {
    MixerWork work = work_of(*layer.cross_attention);
    work.kind = MixerWork::Kind::kCross;
    work.encoder_len = encoder_len;
    kind.mixers.push_back(work);
    ++kind.num_reduces;
  }
  if (!std::holds_alternative<model::NoFfn>(layer.ffn)) ++kind.num_reduces;
  if (const auto* moe = std::get_if<model::MoeFfn>(&layer.ffn)) {
    kind.num_experts = moe->num_experts;
    kind.num_experts_per_token = moe->num_experts_per_token;
  }
  return kind;
}

bool is_same(const LayerKind& a, const LayerKind& b) {
  return a.mixers == b.mixers && a.num_reduces == b.num_reduces && a.num_experts == b.num_experts &&
         a.num_experts_per_token == b.num_experts_per_token && a.matrices == b.matrices;
}

}  // namespace

Result<ModelCosts> make_model_costs(const model::ModelShape& shape) {
  ModelCosts costs;
  costs.hidden_size = shape.hidden_size;
  costs.vocab_size = shape.vocab_size;
  costs.is_f32 = shape.weight_dtype == model::DType::kF32;
  std::vector<LayerKind> layers;
  layers.reserve(shape.layers.size());
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    ULLAGE_TRY(LayerKind kind, kind_of(shape.layers[i], shape.max_encoder_len, i));
    layers.push_back(std::move(kind));
  }
  for (model::WeightMatrix& matrix : model::weight_matrices(shape)) {
    const int64_t layer = matrix.layer;
    // rank_part asks an expert's matrix whether it is the one whose inputs are cut.
    matrix.name = matrix.name.find("down_proj") != std::string::npos ? "down_proj" : "";
    matrix.layer = -1;
    if (matrix.role == WeightRole::kEmbedding) {
      // The first is of tokens; further ones (positions) are looked up alike and never an output head.
      if (costs.embedding.rows == 0) costs.embedding = std::move(matrix);
    } else if (matrix.role == WeightRole::kOutputHead) {
      costs.head = std::move(matrix);
      costs.has_own_head = true;
    } else if (matrix.role == WeightRole::kDraft || matrix.role == WeightRole::kOther) {
      continue;  // towers run before the language model; drafting has its own steps
    } else if (layer >= 0 && static_cast<size_t>(layer) < layers.size()) {
      layers[static_cast<size_t>(layer)].matrices.push_back(std::move(matrix));
    } else {
      costs.once.push_back(std::move(matrix));
    }
  }
  if (!costs.has_own_head) {
    costs.head = costs.embedding;
    costs.head.is_multiplied = true;
  }
  costs.kind_of_layer.reserve(layers.size());
  for (LayerKind& layer : layers) {
    const auto found = std::find_if(costs.kinds.begin(), costs.kinds.end(),
                                    [&](const LayerKind& kind) { return is_same(kind, layer); });
    const auto index = static_cast<size_t>(found - costs.kinds.begin());
    if (index > UINT16_MAX) {
      return Error{ErrorCode::kUnsupported, "expected at most 65,536 kinds of layers", "model"};
    }
    costs.kind_of_layer.push_back(static_cast<uint16_t>(index));
    if (found == costs.kinds.end()) {
      costs.kinds.push_back(std::move(layer));
    } else {
      ++found->num_layers;
    }
  }
  return costs;
}

}  // namespace ullage::cost
