// A model by its numbers alone.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "ullage/api/plan_input.h"
#include "ullage/base/units.h"

namespace ullage::api {
namespace {

constexpr int64_t kDefaultVocab = 128'000;
constexpr int64_t kDefaultPositions = 131'072;
constexpr int64_t kDefaultRope = 64;  // RoPE's part of a latent (DeepSeek-AI 2024)

constexpr std::string_view kModelKeys[] = {"layers",
                                           "kv_heads",
                                           "head_dim",
                                           "heads",
                                           "hidden",
                                           "intermediate",
                                           "vocab",
                                           "latent",
                                           "sliding_window",
                                           "num_experts",
                                           "experts_per_token",
                                           "weight_bytes",
                                           "tied_embeddings",
                                           "expert_intermediate"};

int64_t count_of(const LeverSettings& levers, std::string_view key, int64_t fallback) {
  const LeverSetting* setting = levers.find(key);
  return setting != nullptr ? setting->value.integer : fallback;
}

bool has(const LeverSettings& levers, std::string_view key) { return levers.find(key) != nullptr; }

Error missing(std::string_view flag, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("is missing: a model by its numbers needs {} (for example --layers 40 --kv-heads 8 "
                           "--head-dim 128 --hidden 5120)",
                           what),
               std::string(flag)};
}

Result<int64_t> query_heads(const LeverSettings& levers, int64_t kv_heads, int64_t head_dim) {
  const int64_t hidden = count_of(levers, "hidden", 0);
  int64_t heads = count_of(levers, "heads", 0);
  if (heads == 0) heads = hidden > 0 ? std::max<int64_t>(hidden / head_dim, 1) : kv_heads;
  if (heads % kv_heads != 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("is {}, which does not divide {} query heads; give a divisor, or --heads", kv_heads, heads),
        "--kv-heads"};
  }
  return heads;
}

// Attention alone; the latent form when --latent is given.
Result<model::LayerShape> layer_mixer(const LeverSettings& levers) {
  model::LayerShape layer;
  if (has(levers, "latent")) {
    const int64_t latent = count_of(levers, "latent", 0);
    model::LatentAttention attention;
    attention.qk_rope_head_dim = std::min<int64_t>(kDefaultRope, latent / 2);
    attention.kv_lora_rank = latent - attention.qk_rope_head_dim;
    attention.qk_nope_head_dim = attention.v_head_dim = count_of(levers, "head_dim", 128);
    const int64_t hidden = count_of(levers, "hidden", 0);
    attention.num_heads = count_of(levers, "heads", std::max<int64_t>(hidden / attention.v_head_dim, 1));
    layer.mixer = attention;
    return layer;
  }
  if (!has(levers, "kv_heads")) return missing("--kv-heads", "KV heads");
  if (!has(levers, "head_dim")) return missing("--head-dim", "the elements of a head");
  model::Attention attention;
  attention.num_kv_heads = count_of(levers, "kv_heads", 0);
  attention.head_dim = count_of(levers, "head_dim", 0);
  ULLAGE_TRY(attention.num_heads, query_heads(levers, attention.num_kv_heads, attention.head_dim));
  attention.rope.rotary_dim = attention.head_dim;
  attention.sliding_window = count_of(levers, "sliding_window", 0);
  layer.mixer = attention;
  return layer;
}

int64_t mixer_width(const model::LayerShape& layer) {
  if (const auto* attention = std::get_if<model::Attention>(&layer.mixer)) {
    return attention->num_heads * attention->head_dim;
  }
  const auto& latent = std::get<model::LatentAttention>(layer.mixer);
  return latent.num_heads * latent.v_head_dim;
}

int64_t default_intermediate(int64_t hidden) { return ceil_div(4 * hidden, 256) * 256; }

void set_ffn(const LeverSettings& levers, int64_t intermediate, model::LayerShape* layer) {
  if (!has(levers, "num_experts")) {
    layer->ffn = model::DenseFfn{intermediate};
    return;
  }
  model::MoeFfn moe;
  moe.num_experts = count_of(levers, "num_experts", 0);
  moe.num_experts_per_token = std::min(count_of(levers, "experts_per_token", 2), moe.num_experts);
  moe.intermediate_size = count_of(levers, "expert_intermediate", intermediate);
  layer->ffn = moe;
}

int64_t total_weight_bytes(const model::ModelShape& shape) {
  int64_t sum = 0;
  for (const model::WeightMatrix& matrix : model::weight_matrices(shape)) sum += model::stored_bytes(matrix);
  return sum;
}

// The feed-forward takes what --weight-bytes leaves, and a matrix of its own the rest, so that the sum is exact.
Result<void> fit_weight_bytes(const LeverSettings& levers, model::ModelShape* shape) {
  const LeverSetting* wanted = levers.find("weight_bytes");
  if (wanted == nullptr) return {};
  if (!has(levers, "intermediate") && !has(levers, "num_experts")) {
    for (model::LayerShape& layer : shape->layers) layer.ffn = model::DenseFfn{1};
    const int64_t rest = wanted->value.integer - total_weight_bytes(*shape);
    const int64_t per_width = 3 * 2 * shape->hidden_size * static_cast<int64_t>(shape->layers.size());
    const int64_t width = std::clamp<int64_t>(rest / per_width, 0, 1 << 26);
    for (model::LayerShape& layer : shape->layers) layer.ffn = model::DenseFfn{1 + width};
  }
  const int64_t rest = wanted->value.integer - total_weight_bytes(*shape);
  if (rest < 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("is {}, less than the {} of the matrices that the other numbers give; leave some out",
                    format_bytes(Bytes(wanted->value.integer)), format_bytes(Bytes(wanted->value.integer - rest))),
        wanted->where};
  }
  if (rest >= 2) {
    model::WeightMatrix other;
    other.name = "rest of --weight-bytes";
    other.rows = rest / 2;
    other.is_multiplied = false;
    shape->other_weights.push_back(other);
  }
  return {};
}

}  // namespace

bool has_model_numbers(const LeverSettings& levers) {
  return has(levers, "layers") || has(levers, "latent") || (has(levers, "kv_heads") && has(levers, "head_dim"));
}

Result<model::ModelShape> shape_from_numbers(const LeverSettings& levers) {
  if (!has(levers, "layers")) return missing("--layers", "its number of layers");
  ULLAGE_TRY(model::LayerShape layer, layer_mixer(levers));
  model::ModelShape shape;
  shape.architecture = "numbers";
  for (const std::string_view key : kModelKeys) {
    if (const LeverSetting* setting = levers.find(key); setting != nullptr) {
      shape.name += fmt::format("{}{} {}", shape.name.empty() ? "" : ", ", key, setting->value.text);
    }
  }
  shape.hidden_size = count_of(levers, "hidden", mixer_width(layer));
  shape.vocab_size = count_of(levers, "vocab", kDefaultVocab);
  shape.has_tied_embeddings = has(levers, "tied_embeddings");
  const LeverSetting* length = levers.find("max_model_len");
  shape.max_position_embeddings = length != nullptr ? length->value.integer : kDefaultPositions;
  set_ffn(levers, count_of(levers, "intermediate", default_intermediate(shape.hidden_size)), &layer);
  const int64_t num_layers = count_of(levers, "layers", 1);
  shape.layers.assign(static_cast<size_t>(num_layers), layer);
  ULLAGE_TRY_VOID(fit_weight_bytes(levers, &shape));
  return shape;
}

}  // namespace ullage::api
