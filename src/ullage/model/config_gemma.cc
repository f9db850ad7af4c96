// Gemma 3n and Gemma 4: layers that read others' keys and values, embeddings for every layer, global layers with heads
// of their own, experts beside the dense feed-forward.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/quote.h"
#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/config_rope.h"
#include "ullage/model/config_weights.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

constexpr ClassDefaults kGemma3n{262400, 2048, 16384, 35, 8, 2, 256, 32768, true};
constexpr ClassDefaults kGemma4{262144, 2304, 9216, 30, 8, 4, 256, 131072, true};

// Which layers slide. Without layer_types every full_every-th is full, and so is the last.
Result<std::vector<bool>> read_sliding(const ConfigFields& text, int64_t num_layers, int64_t full_every) {
  std::vector<bool> sliding(static_cast<size_t>(num_layers), false);
  if (!text.has("layer_types")) {
    for (int64_t i = 0; i + 1 < num_layers; ++i) sliding[static_cast<size_t>(i)] = (i + 1) % full_every != 0;
    return sliding;
  }
  ULLAGE_TRY(const std::vector<std::string> types, text.texts("layer_types", num_layers));
  for (size_t i = 0; i < sliding.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != "sliding_attention") {
      return text.unsupported(
          fmt::format("the layer type {} is not supported; full_attention and sliding_attention are", quote(types[i])),
          fmt::format("layer_types/{}", i));
    }
    sliding[i] = types[i] == "sliding_attention";
  }
  return sliding;
}

// The last num_kv_shared_layers read the keys and values of the last layer of their kind before them.
Result<void> share_keys(const ConfigFields& text, int64_t num_shared, const std::vector<bool>& sliding,
                        ModelShape& shape) {
  const int64_t first_shared = static_cast<int64_t>(sliding.size()) - num_shared;
  for (size_t i = static_cast<size_t>(std::max<int64_t>(first_shared, 0)); i < sliding.size(); ++i) {
    int64_t source = first_shared - 1;
    while (source >= 0 && sliding[static_cast<size_t>(source)] != sliding[i]) --source;
    if (source < 0) {
      return text.invalid(fmt::format("layer {} would share the keys and values of a layer of its kind, and the {} "
                                      "layers that keep any have none",
                                      i, std::max<int64_t>(first_shared, 0)),
                          "num_kv_shared_layers");
    }
    std::get<Attention>(shape.layers[i].mixer).kv_source_layer = source;
  }
  return {};
}

// The table of an embedding for each layer, and what brings it into the layers.
Result<void> read_layer_embeddings(const ConfigFields& text, int64_t default_width, ModelShape& shape) {
  ULLAGE_TRY(const int64_t width, text.count("hidden_size_per_layer_input", default_width, kMaxHiddenSize));
  if (width == 0) return {};
  ULLAGE_TRY(const int64_t rows, text.size("vocab_size_per_layer_input", 262144, kMaxVocabSize));
  const auto num_layers = static_cast<int64_t>(shape.layers.size());
  const int64_t hidden = shape.hidden_size;
  OtherWeights weights(shape, "model.", WeightRole::kOther);
  weights.table("embed_tokens_per_layer", rows, num_layers * width);
  weights.matrix("per_layer_model_projection", num_layers * width, hidden);
  weights.vector("per_layer_projection_norm", width);
  weights.set_count(num_layers);
  weights.matrix("layers.per_layer_input_gate", width, hidden);
  weights.matrix("layers.per_layer_projection", hidden, width);
  weights.vector("layers.post_per_layer_input_norm", hidden);
  return {};
}

Result<Attention> read_gemma_attention(const ConfigFields& text, const ClassDefaults& defaults, ModelShape& shape) {
  Attention a;
  ULLAGE_TRY(a.num_heads, text.required("num_attention_heads", kMaxHeads, defaults.num_heads));
  ULLAGE_TRY(a.num_kv_heads, read_num_kv_heads(text, defaults.num_kv_heads, a.num_heads));
  ULLAGE_TRY(a.head_dim, read_head_dim(text, defaults.head_dim, shape.hidden_size, a.num_heads));
  ULLAGE_TRY(a.rope, parse_config_rope(text, a.head_dim, shape, {.layer_type = "sliding_attention"}));
  ULLAGE_TRY(a.has_qkv_bias, text.flag("attention_bias", false));
  a.has_output_bias = a.has_qkv_bias;
  a.has_qk_norm = true;
  ULLAGE_TRY_VOID(check_attention(a, text.where()));
  return a;
}

// Gemma 4's full layers: wider heads, fewer of keys and values, and with attention_k_eq_v no projection of values.
Result<Attention> read_global_attention(const ConfigFields& text, Attention a, ModelShape& shape) {
  ULLAGE_TRY(a.head_dim, text.size("global_head_dim", 512, kMaxHeadDim));
  ULLAGE_TRY(const bool k_eq_v, text.flag("attention_k_eq_v", false));
  a.has_value_projection = !k_eq_v;
  if (k_eq_v) {
    ULLAGE_TRY(a.num_kv_heads, text.size("num_global_key_value_heads", a.num_kv_heads, kMaxHeads));
  }
  ULLAGE_TRY(a.rope, parse_config_rope(text, a.head_dim, shape, {.default_theta = 1e6}));
  ULLAGE_TRY_VOID(check_attention(a, text.where()));
  return a;
}

Result<MoeFfn> read_gemma_experts(const ConfigFields& text, int64_t dense_size) {
  MoeFfn moe;
  ULLAGE_TRY(moe.num_experts, text.required("num_experts", kMaxExperts));
  ULLAGE_TRY(moe.num_experts_per_token, text.required("top_k_experts", kMaxExperts));
  ULLAGE_TRY(moe.intermediate_size,
             text.required(text.first_of({"moe_intermediate_size", "expert_intermediate_size"}), kMaxIntermediateSize));
  moe.dense_intermediate_size = dense_size;
  if (moe.num_experts_per_token <= moe.num_experts) return moe;
  return text.invalid(
      fmt::format("{} experts a token are more than the layer's {}", moe.num_experts_per_token, moe.num_experts),
      "top_k_experts");
}

}  // namespace

Result<void> read_gemma4(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "gemma4";
  shape.norm.num_per_block = 2;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kGemma4, shape));
  ULLAGE_TRY(Attention local, read_gemma_attention(text, kGemma4, shape));
  ULLAGE_TRY(const Attention global, read_global_attention(text, local, shape));
  const int64_t default_window = source.model_type == "gemma4_unified_text" ? 1024 : 512;
  ULLAGE_TRY(local.sliding_window, text.size("sliding_window", default_window, kMaxPositions));
  ULLAGE_TRY(const std::vector<bool> sliding, read_sliding(text, num_layers, 6));
  ULLAGE_TRY(const int64_t num_shared, text.count("num_kv_shared_layers", 0, num_layers));
  ULLAGE_TRY(const int64_t dense_size,
             text.required("intermediate_size", kMaxIntermediateSize, kGemma4.intermediate_size));
  ULLAGE_TRY(const bool has_experts, text.flag("enable_moe_block", false));
  ULLAGE_TRY(const bool is_double_wide, text.flag("use_double_wide_mlp", false));

  LayerShape layer{local, DenseFfn{dense_size, false, true}};
  if (has_experts) {
    ULLAGE_TRY(layer.ffn, read_gemma_experts(text, dense_size));
  }
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (int64_t i = 0; i < num_layers; ++i) {
    layer.mixer = sliding[static_cast<size_t>(i)] ? local : global;
    // Layers that save on keys and values spend it on the feed-forward.
    if (auto* dense = std::get_if<DenseFfn>(&layer.ffn)) {
      dense->intermediate_size = is_double_wide && i >= num_layers - num_shared ? 2 * dense_size : dense_size;
    }
    shape.layers.push_back(layer);
  }
  ULLAGE_TRY_VOID(share_keys(text, num_shared, sliding, shape));
  // The unified model's class has none.
  return read_layer_embeddings(text, source.model_type == "gemma4_unified_text" ? 0 : 256, shape);
}

Result<void> read_gemma3n(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "gemma3n";
  shape.norm.num_per_block = 2;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kGemma3n, shape));
  ULLAGE_TRY(Attention full, read_gemma_attention(text, kGemma3n, shape));
  ULLAGE_TRY(full.rope, parse_config_rope(text, full.head_dim, shape, {.default_theta = 1e6}));
  ULLAGE_TRY(const Rope local_rope,
             parse_config_rope(text, full.head_dim, shape, {.layer_type = "sliding_attention", .local_theta = 1e4}));
  ULLAGE_TRY(const int64_t window, text.size("sliding_window", 512, kMaxPositions));
  ULLAGE_TRY(const std::vector<bool> sliding, read_sliding(text, num_layers, 5));
  ULLAGE_TRY(const int64_t num_shared, text.count("num_kv_shared_layers", 15, num_layers));
  std::vector<int64_t> widths(static_cast<size_t>(num_layers), kGemma3n.intermediate_size);
  if (text.is_list("intermediate_size")) {
    ULLAGE_TRY(widths, text.integers("intermediate_size", num_layers, 1, kMaxIntermediateSize));
  } else {
    ULLAGE_TRY(const int64_t width,
               text.required("intermediate_size", kMaxIntermediateSize, kGemma3n.intermediate_size));
    widths.assign(widths.size(), width);
  }
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (size_t i = 0; i < widths.size(); ++i) {
    LayerShape layer{full, DenseFfn{widths[i], false, true}};
    if (sliding[i]) {
      auto& mixer = std::get<Attention>(layer.mixer);
      mixer.sliding_window = window;
      mixer.rope = local_rope;
    }
    shape.layers.push_back(layer);
  }
  ULLAGE_TRY_VOID(share_keys(text, num_shared, sliding, shape));
  ULLAGE_TRY_VOID(read_layer_embeddings(text, 256, shape));

  // LAuReL's low-rank residual and AltUp's parallel streams (Gemma 3n model card).
  ULLAGE_TRY(const int64_t rank, text.size("laurel_rank", 64, kMaxHiddenSize));
  ULLAGE_TRY(const int64_t streams, text.size("altup_num_inputs", 4, 64));
  const int64_t hidden = shape.hidden_size;
  OtherWeights weights(shape, "model.", WeightRole::kOther);
  weights.set_count(num_layers);
  weights.matrix("layers.laurel.linear_left", rank, hidden);
  weights.matrix("layers.laurel.linear_right", hidden, rank);
  weights.vector("layers.laurel.post_laurel_norm", hidden);
  weights.vector("layers.altup.correct_output_scale", hidden);
  weights.matrix("layers.altup.correction_coefs", streams, streams);
  weights.matrix("layers.altup.prediction_coefs", streams * streams, streams);
  weights.matrix("layers.altup.modality_router", streams, hidden);
  weights.vector("layers.altup.router_norm", hidden);
  weights.set_count(streams - 1);
  if (streams > 1) {
    weights.matrix("altup_projections", hidden, hidden);
    weights.matrix("altup_unembed_projections", hidden, hidden);
  }
  return {};
}

}  // namespace ullage::model
