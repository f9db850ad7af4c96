// Hybrids of softmax attention and linear attention or short convolutions: Qwen3-Next and Qwen3.5, Kimi-Linear,
// MiniMax-Text-01, LFM2. Defaults are those of Hugging Face transformers' configuration classes; what a state holds is
// as vLLM's MambaStateShapeCalculator and MambaStateDtypeCalculator lay it out.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/quote.h"
#include "ullage/base/units.h"
#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/config_recurrent.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

using Kind = LinearAttention::Kind;

constexpr ClassDefaults kQwen3Next{151936, 2048, 5632, 48, 16, 2, 256, 32768};
constexpr ClassDefaults kQwen35{248320, 4096, 12288, 32, 16, 4, 256, 32768};
constexpr ClassDefaults kQwen35Moe{248320, 2048, 0, 40, 16, 2, 256, 32768};
constexpr ClassDefaults kKimiLinear{163840, 2304, 9216, 27, 32, 32, 0, 1048576};
constexpr ClassDefaults kMiniMax{32000, 4096, 14336, 32, 32, 8, 0, 131072};
constexpr ClassDefaults kLfm2{65536, 2560, 12288, 32, 32, 8, 0, 128000, true};
constexpr ClassDefaults kLfm2Moe{65536, 2048, 7168, 32, 32, 8, 0, 128000, true};

Result<LinearAttention> read_gated_delta(const ConfigFields& text, const ModelShape& shape) {
  LinearAttention linear;
  linear.kind = Kind::kGatedDelta;
  ULLAGE_TRY(linear.num_key_heads, text.size("linear_num_key_heads", 16, kMaxHeads));
  ULLAGE_TRY(linear.num_value_heads, text.size("linear_num_value_heads", 32, kMaxHeads));
  ULLAGE_TRY(linear.key_head_dim, text.size("linear_key_head_dim", 128, kMaxHeadDim));
  ULLAGE_TRY(linear.value_head_dim, text.size("linear_value_head_dim", 128, kMaxHeadDim));
  ULLAGE_TRY(linear.conv_kernel, text.size("linear_conv_kernel_dim", 4, kMaxConvKernel));
  ULLAGE_TRY(linear.state_dtype, read_state_dtype(text, shape.weight_dtype));
  if (linear.num_value_heads % linear.num_key_heads != 0) {
    return text.invalid(fmt::format("{} value heads cannot be shared evenly by {} key heads", linear.num_value_heads,
                                    linear.num_key_heads),
                        "linear_num_value_heads");
  }
  return linear;
}

struct QwenMoe {
  int64_t num_experts = 0;  // of the class; 0 = dense
  int64_t num_per_token = 0;
  int64_t width = 512;
};

Result<MoeFfn> read_qwen_moe(const ConfigFields& text, const QwenMoe& defaults) {
  MoeFfn ffn;
  ULLAGE_TRY(ffn.num_experts, text.size("num_experts", defaults.num_experts, kMaxExperts));
  ULLAGE_TRY(ffn.num_experts_per_token, text.size("num_experts_per_tok", defaults.num_per_token, ffn.num_experts));
  ULLAGE_TRY(ffn.intermediate_size, text.size("moe_intermediate_size", defaults.width, kMaxIntermediateSize));
  ULLAGE_TRY(ffn.shared_intermediate_size,
             text.count("shared_expert_intermediate_size", defaults.width, kMaxIntermediateSize));
  ffn.has_shared_expert_gate = ffn.shared_intermediate_size > 0;
  return ffn;
}

// Every full_attention_interval-th layer is softmax attention, unless layer_types says.
Result<std::vector<bool>> read_full_layers(const ConfigFields& text, int64_t num_layers, const char* other) {
  std::vector<bool> full(static_cast<size_t>(num_layers), false);
  if (text.has("layer_types")) return read_two_types(text, "layer_types", num_layers, {"full_attention"}, {other});
  ULLAGE_TRY(const int64_t every, text.size("full_attention_interval", 4, kMaxLayers));
  for (int64_t i = 0; i < num_layers; ++i) full[static_cast<size_t>(i)] = (i + 1) % every == 0;
  return full;
}

Result<void> read_qwen(const ConfigSource& source, const ClassDefaults& defaults, const QwenMoe& moe,
                       const char* architecture, int64_t default_draft, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = architecture;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, defaults, shape));
  DecoderRules rules;
  rules.defaults = defaults;
  rules.qkv_bias = {"attention_bias", false};
  rules.output_bias = {"attention_bias", false};
  rules.qk_norm = {nullptr, true};
  ULLAGE_TRY(Attention attention, read_attention(source, rules, shape));
  ULLAGE_TRY(attention.has_output_gate, text.flag("attn_output_gate", true));
  ULLAGE_TRY(const LinearAttention linear, read_gated_delta(text, shape));
  ULLAGE_TRY(const std::vector<bool> full, read_full_layers(text, num_layers, "linear_attention"));

  std::vector<bool> sparse(full.size(), moe.num_experts > 0);
  MoeFfn experts;
  DenseFfn dense;
  if (moe.num_experts > 0) {
    ULLAGE_TRY(sparse, read_sparse_layers(text, 0, num_layers));
    ULLAGE_TRY(experts, read_qwen_moe(text, moe));
  }
  if (std::find(sparse.begin(), sparse.end(), false) != sparse.end()) {
    ULLAGE_TRY(dense.intermediate_size,
               text.required("intermediate_size", kMaxIntermediateSize, defaults.intermediate_size));
  }
  const auto ffn_of = [&](bool is_sparse) {
    return is_sparse ? std::variant<DenseFfn, MoeFfn, NoFfn>(experts) : std::variant<DenseFfn, MoeFfn, NoFfn>(dense);
  };
  shape.layers.reserve(full.size());
  for (size_t i = 0; i < full.size(); ++i) {
    LayerShape layer;
    layer.ffn = ffn_of(sparse[i]);
    if (full[i])
      layer.mixer = attention;
    else
      layer.mixer = linear;
    shape.layers.push_back(layer);
  }
  // Multi-token prediction is a layer of softmax attention.
  const char* key = text.first_of({"mtp_num_hidden_layers", "num_nextn_predict_layers"});
  ULLAGE_TRY(const int64_t num_draft, text.count(key, default_draft, kMaxLayers));
  LayerShape draft;
  draft.mixer = attention;
  draft.ffn = ffn_of(moe.num_experts > 0);
  shape.draft_layers.assign(static_cast<size_t>(num_draft), draft);
  return {};
}

// "linear_attn_config": {"kda_layers": [1, 2, ...], "full_attn_layers": [4, ...]}, counted from 1.
Result<std::vector<bool>> read_kimi_layers(const ConfigFields& text, const ConfigFields& linear, int64_t num_layers) {
  if (text.has("layer_types")) {
    return read_two_types(text, "layer_types", num_layers, {"full_attention"}, {"linear_attention"});
  }
  std::vector<bool> full(static_cast<size_t>(num_layers), false);
  if (!linear.has("full_attn_layers")) {
    for (int64_t i = 4; i < num_layers; i += 4) full[static_cast<size_t>(i)] = true;
    return full;
  }
  ULLAGE_TRY(const std::vector<int64_t> list, linear.integers("full_attn_layers", -1, 1, num_layers));
  for (const int64_t layer : list) full[static_cast<size_t>(layer - 1)] = true;
  if (linear.has("kda_layers")) {
    ULLAGE_TRY(const std::vector<int64_t> others, linear.integers("kda_layers", -1, 1, num_layers));
    if (static_cast<int64_t>(list.size() + others.size()) != num_layers) {
      return linear.invalid(fmt::format("{} layers of full attention and {} of linear are not the model's {}",
                                        list.size(), others.size(), num_layers),
                            "kda_layers");
    }
  }
  return full;
}

Result<LatentAttention> read_kimi_latent(const ConfigFields& text, int64_t num_heads) {
  LatentAttention latent;
  latent.num_heads = num_heads;
  ULLAGE_TRY(latent.q_lora_rank, text.count("q_lora_rank", 0, kMaxHiddenSize));
  ULLAGE_TRY(latent.kv_lora_rank, text.size("kv_lora_rank", 512, kMaxHiddenSize));
  ULLAGE_TRY(latent.qk_nope_head_dim, text.size("qk_nope_head_dim", 128, kMaxHeadDim));
  ULLAGE_TRY(latent.qk_rope_head_dim, text.size("qk_rope_head_dim", 64, kMaxHeadDim));
  ULLAGE_TRY(latent.v_head_dim, text.size("v_head_dim", 128, kMaxHeadDim));
  return latent;
}

Result<MoeFfn> read_kimi_moe(const ConfigFields& text) {
  MoeFfn ffn;
  ULLAGE_TRY(ffn.num_experts, text.size(text.first_of({"num_experts", "num_local_experts"}), 256, kMaxExperts));
  ULLAGE_TRY(ffn.num_experts_per_token,
             text.size(text.first_of({"num_experts_per_token", "num_experts_per_tok"}), 8, ffn.num_experts));
  ULLAGE_TRY(ffn.intermediate_size, text.size("moe_intermediate_size", 1024, kMaxIntermediateSize));
  ULLAGE_TRY(const int64_t num_shared, text.count(text.first_of({"num_shared_experts", "n_shared_experts"}), 1, 64));
  ffn.shared_intermediate_size = num_shared * ffn.intermediate_size;
  ffn.has_router_bias = true;
  return ffn;
}

// int(2 n / 3) times a factor, rounded up to a multiple: LFM2's block_auto_adjust_ff_dim.
Result<int64_t> read_lfm2_width(const ConfigFields& text) {
  const char* key = text.first_of({"block_ff_dim", "intermediate_size"});
  ULLAGE_TRY(int64_t width, text.required(key, kMaxIntermediateSize, kLfm2.intermediate_size));
  ULLAGE_TRY(const bool adjusts, text.flag("block_auto_adjust_ff_dim", true));
  if (!adjusts) return width;
  ULLAGE_TRY(const double factor, text.positive("block_ffn_dim_multiplier", 1.0));
  ULLAGE_TRY(const int64_t multiple, text.size("block_multiple_of", 256, kMaxIntermediateSize));
  const int64_t two_thirds = 2 * width / 3;
  width = static_cast<int64_t>(std::min(factor * static_cast<double>(two_thirds), 1e6));
  return check_size(ceil_div(std::max<int64_t>(width, 1), multiple) * multiple, kMaxIntermediateSize, text.at(key));
}

Result<std::vector<bool>> read_lfm2_layers(const ConfigFields& text, int64_t num_layers) {
  if (text.has("layer_types")) return read_two_types(text, "layer_types", num_layers, {"full_attention"}, {"conv"});
  std::vector<bool> full(static_cast<size_t>(num_layers), !text.has("full_attn_idxs"));
  if (!text.has("full_attn_idxs")) return full;
  ULLAGE_TRY(const std::vector<int64_t> list, text.integers("full_attn_idxs", -1, 0, num_layers - 1));
  for (const int64_t layer : list) full[static_cast<size_t>(layer)] = true;
  return full;
}

Result<void> read_lfm2_common(const ConfigSource& source, const ClassDefaults& defaults,
                              const std::vector<std::variant<DenseFfn, MoeFfn, NoFfn>>& ffns, ModelShape& shape) {
  const ConfigFields& text = source.text;
  const auto num_layers = static_cast<int64_t>(ffns.size());
  // The first name of the key.
  if (text.has("tie_embedding")) {
    ULLAGE_TRY(shape.has_tied_embeddings, text.flag("tie_embedding", true));
  }
  DecoderRules rules;
  rules.defaults = defaults;
  rules.qk_norm = {nullptr, true};
  ULLAGE_TRY(const Attention attention, read_attention(source, rules, shape));
  LinearAttention conv;
  conv.kind = Kind::kShortConvolution;
  conv.num_value_heads = 1;
  conv.value_head_dim = shape.hidden_size;
  ULLAGE_TRY(conv.conv_kernel, text.size("conv_L_cache", 3, kMaxConvKernel));
  conv.state_dtype = shape.weight_dtype;
  ULLAGE_TRY(const std::vector<bool> full, read_lfm2_layers(text, num_layers));
  shape.layers.reserve(full.size());
  for (size_t i = 0; i < full.size(); ++i) {
    LayerShape layer;
    layer.ffn = ffns[i];
    if (full[i])
      layer.mixer = attention;
    else
      layer.mixer = conv;
    shape.layers.push_back(layer);
  }
  return {};
}

}  // namespace

Result<void> read_qwen3_next(const ConfigSource& source, ModelShape& shape) {
  // Its config.json does not speak of the one layer of multi-token prediction that every checkpoint has.
  return read_qwen(source, kQwen3Next, {512, 10}, "qwen3next", 1, shape);
}

Result<void> read_qwen3_5(const ConfigSource& source, ModelShape& shape) {
  return read_qwen(source, kQwen35, {}, "qwen35", 0, shape);
}

Result<void> read_qwen3_5_moe(const ConfigSource& source, ModelShape& shape) {
  return read_qwen(source, kQwen35Moe, {256, 8}, "qwen35moe", 0, shape);
}

Result<void> read_kimi_linear(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "kimi-linear";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kKimiLinear, shape));
  ULLAGE_TRY(const int64_t num_heads, text.required("num_attention_heads", kMaxHeads, kKimiLinear.num_heads));
  ULLAGE_TRY(const LatentAttention latent, read_kimi_latent(text, num_heads));
  const bool has_section = text.has("linear_attn_config");
  ULLAGE_TRY(const ConfigFields linear,
             has_section ? text.section("linear_attn_config", true) : Result<ConfigFields>(text));
  LinearAttention delta;
  delta.kind = Kind::kKimiDelta;
  ULLAGE_TRY(delta.num_key_heads, linear.size(has_section ? "num_heads" : "linear_num_heads", 32, kMaxHeads));
  ULLAGE_TRY(delta.key_head_dim, linear.size(has_section ? "head_dim" : "linear_head_dim", 128, kMaxHeadDim));
  ULLAGE_TRY(delta.conv_kernel,
             linear.size(has_section ? "short_conv_kernel_size" : "linear_conv_kernel_dim", 4, kMaxConvKernel));
  delta.num_value_heads = delta.num_key_heads;
  delta.value_head_dim = delta.key_head_dim;
  delta.state_dtype = DType::kF32;
  ULLAGE_TRY(const std::vector<bool> full, read_kimi_layers(text, linear, num_layers));
  ULLAGE_TRY(const std::vector<bool> sparse, read_sparse_layers(text, 1, num_layers));
  ULLAGE_TRY(const MoeFfn experts, read_kimi_moe(text));
  DenseFfn dense;
  ULLAGE_TRY(dense.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kKimiLinear.intermediate_size));
  shape.layers.reserve(full.size());
  for (size_t i = 0; i < full.size(); ++i) {
    LayerShape layer;
    if (full[i])
      layer.mixer = latent;
    else
      layer.mixer = delta;
    if (sparse[i])
      layer.ffn = experts;
    else
      layer.ffn = dense;
    shape.layers.push_back(layer);
  }
  return read_draft_layers(source, shape);
}

Result<void> read_minimax_text(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = source.model_type;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kMiniMax, shape));
  DecoderRules rules;
  rules.defaults = kMiniMax;
  ULLAGE_TRY(const Attention attention, read_attention(source, rules, shape));
  LinearAttention lightning;
  lightning.kind = Kind::kLightning;
  lightning.num_key_heads = attention.num_heads;
  lightning.num_value_heads = attention.num_heads;
  lightning.key_head_dim = attention.head_dim;
  lightning.value_head_dim = attention.head_dim;
  ULLAGE_TRY(lightning.state_dtype, read_state_dtype(text, shape.weight_dtype));

  std::vector<bool> full(static_cast<size_t>(num_layers), false);
  if (text.has("attn_type_list")) {
    ULLAGE_TRY(const std::vector<int64_t> list, text.integers("attn_type_list", num_layers, 0, 1));
    for (size_t i = 0; i < full.size(); ++i) full[i] = list[i] == 1;
  } else if (text.has("layer_types")) {
    ULLAGE_TRY(full, read_two_types(text, "layer_types", num_layers, {"full_attention"}, {"linear_attention"}));
  } else {
    for (size_t i = 0; i < full.size(); ++i) full[i] = (i + 1) % 2 != 0;
  }
  MoeFfn experts;
  ULLAGE_TRY(experts.num_experts, text.size("num_local_experts", 8, kMaxExperts));
  ULLAGE_TRY(experts.num_experts_per_token, text.size("num_experts_per_tok", 2, experts.num_experts));
  ULLAGE_TRY(experts.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kMiniMax.intermediate_size));
  shape.layers.reserve(full.size());
  for (const bool is_full : full) {
    LayerShape layer;
    layer.ffn = experts;
    if (is_full)
      layer.mixer = attention;
    else
      layer.mixer = lightning;
    shape.layers.push_back(layer);
  }
  return {};
}

Result<void> read_lfm2(const ConfigSource& source, ModelShape& shape) {
  shape.architecture = "lfm2";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kLfm2, shape));
  ULLAGE_TRY(const int64_t width, read_lfm2_width(source.text));
  const std::vector<std::variant<DenseFfn, MoeFfn, NoFfn>> ffns(static_cast<size_t>(num_layers),
                                                                DenseFfn{.intermediate_size = width});
  return read_lfm2_common(source, kLfm2, ffns, shape);
}

Result<void> read_lfm2_moe(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "lfm2moe";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kLfm2Moe, shape));
  DenseFfn dense;
  ULLAGE_TRY(dense.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kLfm2Moe.intermediate_size));
  MoeFfn experts;
  ULLAGE_TRY(experts.num_experts, text.size("num_experts", 32, kMaxExperts));
  ULLAGE_TRY(experts.num_experts_per_token, text.size("num_experts_per_tok", 4, experts.num_experts));
  ULLAGE_TRY(experts.intermediate_size, text.size("moe_intermediate_size", 1792, kMaxIntermediateSize));
  ULLAGE_TRY(experts.has_router_bias, text.flag("use_expert_bias", true));
  ULLAGE_TRY(const int64_t num_dense, text.count("num_dense_layers", 2, kMaxLayers));
  std::vector<std::variant<DenseFfn, MoeFfn, NoFfn>> ffns(static_cast<size_t>(num_layers), experts);
  for (int64_t i = 0; i < std::min(num_dense, num_layers); ++i) ffns[static_cast<size_t>(i)] = dense;
  return read_lfm2_common(source, kLfm2Moe, ffns, shape);
}

}  // namespace ullage::model
