// Models of Mamba layers, alone or beside attention: Jamba, Granite 4, Bamba, Falcon-H1, Mamba 1 and 2. Defaults are
// those of Hugging Face transformers' configuration classes. Nemotron-H has a file of its own.
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

constexpr ClassDefaults kJamba{65536, 4096, 14336, 32, 32, 8, 0, 262144};
constexpr ClassDefaults kGranite{32000, 4096, 11008, 32, 32, 0, 0, 2048};
constexpr ClassDefaults kBamba{128000, 4096, 14336, 32, 32, 8, 0, 262144};
constexpr ClassDefaults kFalconH1{128000, 4096, 14336, 32, 32, 8, 0, 8192};
// A state has no bound on positions; this is what vLLM takes for models that state none.
constexpr ClassDefaults kMamba{50280, 768, 0, 32, 0, 0, 0, 2048, true};
constexpr ClassDefaults kMamba2{32768, 4096, 0, 64, 0, 0, 0, 2048, false};

// A number, or the word "auto".
Result<int64_t> size_or_auto(const ConfigFields& text, const char* key, int64_t automatic, int64_t most) {
  if (auto word = text.text(key, "auto"); word && *word == "auto") return check_size(automatic, most, text.at(key));
  return text.size(key, automatic, most);
}

// Mamba 2 as Bamba, Granite and Falcon-H1 write it: mamba_*.
Result<StateSpace> read_mamba2_fields(const ConfigFields& text, const ModelShape& shape, int64_t inner_size) {
  StateSpace state;
  ULLAGE_TRY(state.inner_size, check_size(inner_size, kMaxIntermediateSize, text.at("mamba_expand")));
  ULLAGE_TRY(state.num_heads, text.size("mamba_n_heads", 128, kMaxStateSize));
  ULLAGE_TRY(state.head_dim, size_or_auto(text, "mamba_d_head", inner_size / state.num_heads, kMaxStateSize));
  if (state.num_heads * state.head_dim != inner_size) {
    return text.invalid(
        fmt::format("{} heads of {} are not the {} channels of the state", state.num_heads, state.head_dim, inner_size),
        "mamba_n_heads");
  }
  ULLAGE_TRY(state.num_groups, text.size("mamba_n_groups", 1, state.num_heads));
  ULLAGE_TRY(state.state_size, text.size("mamba_d_state", 256, kMaxStateSize));
  ULLAGE_TRY(state.conv_kernel, text.size("mamba_d_conv", 4, kMaxConvKernel));
  ULLAGE_TRY(state.has_conv_bias, text.flag("mamba_conv_bias", true));
  ULLAGE_TRY(state.has_projection_bias, text.flag("mamba_proj_bias", false));
  ULLAGE_TRY(state.state_dtype, read_state_dtype(text, shape.weight_dtype));
  return state;
}

Result<int64_t> read_expanded(const ConfigFields& text, const ModelShape& shape) {
  ULLAGE_TRY(const int64_t expand, text.size("mamba_expand", 2, 64));
  return expand * shape.hidden_size;
}

Result<Attention> read_plain_attention(const ConfigSource& source, const ClassDefaults& defaults, ModelShape& shape) {
  DecoderRules rules;
  rules.defaults = defaults;
  rules.qkv_bias = {"attention_bias", false};
  rules.output_bias = {"attention_bias", false};
  return read_attention(source, rules, shape);
}

}  // namespace

Result<DType> read_state_dtype(const ConfigFields& text, DType model_dtype) {
  const char* key = text.first_of({"mamba_ssm_dtype", "mamba_ssm_cache_dtype"});
  ULLAGE_TRY(const std::string name, text.text(key, "auto"));
  if (name == "auto") return model_dtype;
  ULLAGE_TRY(const DType dtype, parse_dtype(name, text.at(key)));
  if (info(dtype).block_elements == 1) return dtype;
  return text.invalid(
      fmt::format("{} is not a type of a state; float32, float16 or bfloat16 was expected", quote(name)), key);
}

Result<std::vector<bool>> read_two_types(const ConfigFields& text, const char* key, int64_t num_layers,
                                         std::initializer_list<std::string_view> yes,
                                         std::initializer_list<std::string_view> no) {
  ULLAGE_TRY(const std::vector<std::string> types, text.texts(key, num_layers));
  std::vector<bool> is_yes(types.size(), false);
  for (size_t i = 0; i < types.size(); ++i) {
    is_yes[i] = std::find(yes.begin(), yes.end(), types[i]) != yes.end();
    if (!is_yes[i] && std::find(no.begin(), no.end(), types[i]) == no.end()) {
      return text.unsupported(fmt::format("the layer type {} is not supported for this model_type; {} and {} are",
                                          quote(types[i]), *yes.begin(), *no.begin()),
                              fmt::format("{}/{}", key, i));
    }
  }
  return is_yes;
}

Result<void> read_jamba(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "jamba";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kJamba, shape));
  ULLAGE_TRY(Attention attention, read_plain_attention(source, kJamba, shape));
  attention.rope.rotary_dim = 0;  // no rotation: the states know the order
  StateSpace state;
  ULLAGE_TRY(const int64_t inner, read_expanded(text, shape));
  ULLAGE_TRY(state.inner_size, check_size(inner, kMaxIntermediateSize, text.at("mamba_expand")));
  ULLAGE_TRY(state.state_size, text.size("mamba_d_state", 16, kMaxStateSize));
  ULLAGE_TRY(state.conv_kernel, text.size("mamba_d_conv", 4, kMaxConvKernel));
  ULLAGE_TRY(state.time_step_rank,
             size_or_auto(text, "mamba_dt_rank", ceil_div(shape.hidden_size, int64_t{16}), kMaxHiddenSize));
  ULLAGE_TRY(state.has_conv_bias, text.flag("mamba_conv_bias", true));
  ULLAGE_TRY(state.has_projection_bias, text.flag("mamba_proj_bias", false));
  ULLAGE_TRY(state.state_dtype, read_state_dtype(text, shape.weight_dtype));

  ULLAGE_TRY(const int64_t attention_period, text.size("attn_layer_period", 8, kMaxLayers));
  ULLAGE_TRY(const int64_t attention_offset, text.count("attn_layer_offset", 4, kMaxLayers));
  ULLAGE_TRY(const int64_t expert_period, text.size("expert_layer_period", 2, kMaxLayers));
  ULLAGE_TRY(const int64_t expert_offset, text.count("expert_layer_offset", 1, kMaxLayers));
  DenseFfn dense;
  ULLAGE_TRY(dense.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kJamba.intermediate_size));
  MoeFfn experts;
  ULLAGE_TRY(experts.num_experts, text.size("num_experts", 16, kMaxExperts));
  ULLAGE_TRY(experts.num_experts_per_token,
             text.size("num_experts_per_tok", std::min<int64_t>(2, experts.num_experts), experts.num_experts));
  experts.intermediate_size = dense.intermediate_size;
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (int64_t i = 0; i < num_layers; ++i) {
    LayerShape layer;
    if (i % attention_period == attention_offset)
      layer.mixer = attention;
    else
      layer.mixer = state;
    if (i % expert_period == expert_offset && experts.num_experts > 1)
      layer.ffn = experts;
    else
      layer.ffn = dense;
    shape.layers.push_back(layer);
  }
  return {};
}

Result<void> read_granite_hybrid(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "granitehybrid";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kGranite, shape));
  ULLAGE_TRY(Attention attention, read_plain_attention(source, kGranite, shape));
  ULLAGE_TRY(const std::string positions, text.text("position_embedding_type", "nope"));
  if (positions != "rope") attention.rope.rotary_dim = 0;
  ULLAGE_TRY(const int64_t inner, read_expanded(text, shape));
  ULLAGE_TRY(const StateSpace state, read_mamba2_fields(text, shape, inner));
  const char* key = text.first_of({"layer_types", "layers_block_type"});
  std::vector<bool> full(static_cast<size_t>(num_layers), false);
  if (text.has(key)) {
    ULLAGE_TRY(full,
               read_two_types(text, key, num_layers, {"attention", "full_attention"}, {"mamba", "linear_attention"}));
  }
  // A dense feed-forward in every layer; routed experts beside it unless there are none.
  ULLAGE_TRY(const int64_t shared, text.count("shared_intermediate_size", 1024, kMaxIntermediateSize));
  ULLAGE_TRY(const int64_t num_experts, text.count("num_local_experts", 8, kMaxExperts));
  std::variant<DenseFfn, MoeFfn, NoFfn> ffn = DenseFfn{.intermediate_size = shared};
  if (num_experts > 0) {
    MoeFfn experts;
    experts.num_experts = num_experts;
    ULLAGE_TRY(experts.num_experts_per_token,
               text.size("num_experts_per_tok", std::min<int64_t>(2, num_experts), num_experts));
    ULLAGE_TRY(experts.intermediate_size,
               text.required("intermediate_size", kMaxIntermediateSize, kGranite.intermediate_size));
    experts.shared_intermediate_size = shared;
    ffn = experts;
  } else if (shared == 0) {
    return text.invalid("has neither experts nor a shared feed-forward", "shared_intermediate_size");
  }
  shape.layers.reserve(full.size());
  for (const bool is_full : full) {
    LayerShape layer;
    layer.ffn = ffn;
    if (is_full)
      layer.mixer = attention;
    else
      layer.mixer = state;
    shape.layers.push_back(layer);
  }
  return {};
}

Result<void> read_bamba(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "bamba";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kBamba, shape));
  ULLAGE_TRY(const Attention attention, read_plain_attention(source, kBamba, shape));
  ULLAGE_TRY(const int64_t inner, read_expanded(text, shape));
  ULLAGE_TRY(const StateSpace state, read_mamba2_fields(text, shape, inner));
  DenseFfn ffn;
  ULLAGE_TRY(ffn.intermediate_size, text.required("intermediate_size", kMaxIntermediateSize, kBamba.intermediate_size));
  ULLAGE_TRY(ffn.has_bias, text.flag("mlp_bias", false));
  LayerShape layer{state, ffn};
  shape.layers.assign(static_cast<size_t>(num_layers), layer);
  if (!text.has("attn_layer_indices")) return {};
  ULLAGE_TRY(const std::vector<int64_t> list, text.integers("attn_layer_indices", -1, 0, num_layers - 1));
  for (const int64_t i : list) shape.layers[static_cast<size_t>(i)].mixer = attention;
  return {};
}

Result<void> read_falcon_h1(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "falcon-h1";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kFalconH1, shape));
  ULLAGE_TRY(const Attention attention, read_plain_attention(source, kFalconH1, shape));
  ULLAGE_TRY(const int64_t expanded, read_expanded(text, shape));
  const bool says_null = text.states("mamba_d_ssm") && !text.has("mamba_d_ssm");
  ULLAGE_TRY(const int64_t inner,
             says_null ? Result<int64_t>(expanded) : text.size("mamba_d_ssm", 1024, kMaxIntermediateSize));
  ULLAGE_TRY(const StateSpace state, read_mamba2_fields(text, shape, inner));
  DenseFfn ffn;
  ULLAGE_TRY(ffn.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kFalconH1.intermediate_size));
  ULLAGE_TRY(ffn.has_bias, text.flag("mlp_bias", false));
  LayerShape layer{attention, ffn};
  layer.parallel_state_space = state;
  shape.layers.assign(static_cast<size_t>(num_layers), layer);
  return {};
}

Result<void> read_mamba(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "mamba";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kMamba, shape));
  StateSpace state;
  ULLAGE_TRY(const int64_t expand, text.size("expand", 2, 64));
  ULLAGE_TRY(state.inner_size, text.size(text.first_of({"intermediate_size", "d_inner"}), expand * shape.hidden_size,
                                         kMaxIntermediateSize));
  ULLAGE_TRY(state.state_size, text.size("state_size", 16, kMaxStateSize));
  ULLAGE_TRY(state.conv_kernel, text.size("conv_kernel", 4, kMaxConvKernel));
  ULLAGE_TRY(state.time_step_rank,
             size_or_auto(text, "time_step_rank", ceil_div(shape.hidden_size, int64_t{16}), kMaxHiddenSize));
  ULLAGE_TRY(state.has_conv_bias, text.flag("use_conv_bias", true));
  ULLAGE_TRY(state.has_projection_bias, text.flag("use_bias", false));
  ULLAGE_TRY(state.state_dtype, read_state_dtype(text, shape.weight_dtype));
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{state, NoFfn{}});
  return {};
}

Result<void> read_mamba2(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "mamba2";
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kMamba2, shape));
  StateSpace state;
  ULLAGE_TRY(state.num_heads, text.size("num_heads", 128, kMaxStateSize));
  ULLAGE_TRY(state.head_dim, text.size("head_dim", 64, kMaxHeadDim));
  ULLAGE_TRY(const int64_t expand, text.size("expand", 2, 64));
  state.inner_size = state.num_heads * state.head_dim;
  if (state.inner_size != expand * shape.hidden_size) {
    return text.invalid(fmt::format("{} heads of {} are not {} times the hidden size {}", state.num_heads,
                                    state.head_dim, expand, shape.hidden_size),
                        "num_heads");
  }
  ULLAGE_TRY(state.num_groups, text.size("n_groups", 8, state.num_heads));
  ULLAGE_TRY(state.state_size, text.size("state_size", 128, kMaxStateSize));
  ULLAGE_TRY(state.conv_kernel, text.size("conv_kernel", 4, kMaxConvKernel));
  ULLAGE_TRY(state.has_conv_bias, text.flag("use_conv_bias", true));
  ULLAGE_TRY(state.has_projection_bias, text.flag("use_bias", false));
  ULLAGE_TRY(state.state_dtype, read_state_dtype(text, shape.weight_dtype));
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{state, NoFfn{}});
  return {};
}

Result<void> refuse_zamba(const ConfigSource& source, ModelShape&) {
  return source.text.unsupported(
      "Zamba's attention blocks share one set of weights with an adapter each, which is not modelled", "model_type");
}

}  // namespace ullage::model
