// Decoders of attention and dense or sparse feed-forwards, by the rules of decoder_rules.h.
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/quote.h"
#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/config_rope.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

Result<bool> read_flag(const ConfigFields& text, const FlagRule& rule) {
  if (rule.key == nullptr) return rule.value;
  return text.flag(rule.key, rule.value);
}

// 0 = none. Absent: the rules' own; null: none.
Result<int64_t> read_window(const ConfigFields& text, const DecoderRules& rules) {
  if (!text.states("sliding_window")) {
    if (rules.windows == Windows::kQwen) return 4096;
    return rules.default_window;
  }
  if (!text.has("sliding_window")) return 0;
  return text.count("sliding_window", 0, kMaxPositions);
}

Result<void> read_layer_types(const ConfigFields& text, int64_t window, std::vector<int64_t>& windows) {
  ULLAGE_TRY(const std::vector<std::string> types, text.texts("layer_types", static_cast<int64_t>(windows.size())));
  for (size_t i = 0; i < windows.size(); ++i) {
    const std::string place = fmt::format("layer_types/{}", i);
    if (types[i] == "full_attention") continue;
    if (types[i] != "sliding_attention") {
      return text.unsupported(fmt::format("the layer type {} is not supported for this model_type; full_attention and "
                                          "sliding_attention are",
                                          quote(types[i])),
                              place);
    }
    if (window == 0) return text.invalid("is sliding_attention, but the model has no sliding_window in use", place);
    windows[i] = window;
  }
  return {};
}

// Every n-th layer is full, n by the file or the class. Early files of EXAONE 4 write "LLLG": n letters.
Result<int64_t> read_full_every(const ConfigFields& text, int64_t class_default) {
  const char* key = text.first_of({"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"});
  if (!text.has(key)) return class_default;
  if (auto letters = text.text(key, ""); letters && !letters->empty()) {
    return std::min<int64_t>(static_cast<int64_t>(letters->size()), kMaxLayers);
  }
  return text.size(key, class_default, kMaxLayers);
}

Result<std::vector<int64_t>> read_windows(const ConfigFields& text, const DecoderRules& rules, int64_t num_layers) {
  std::vector<int64_t> windows(static_cast<size_t>(num_layers), 0);
  if (rules.windows == Windows::kNone) return windows;
  ULLAGE_TRY(int64_t window, read_window(text, rules));
  if (rules.windows == Windows::kQwen) {
    ULLAGE_TRY(const bool use, text.flag("use_sliding_window", false));
    if (!use) window = 0;
  }
  if (rules.windows == Windows::kAll) {
    windows.assign(windows.size(), window);
    return windows;
  }
  if (text.has("layer_types")) {
    ULLAGE_TRY_VOID(read_layer_types(text, window, windows));
    return windows;
  }
  if (rules.windows == Windows::kQwen) {
    ULLAGE_TRY(const int64_t first, text.integer("max_window_layers", 28));
    for (int64_t i = std::max<int64_t>(first, 0); i < num_layers; ++i) windows[static_cast<size_t>(i)] = window;
    return windows;
  }
  ULLAGE_TRY(const int64_t full_every, read_full_every(text, rules.full_every));
  for (int64_t i = 0; i < num_layers; ++i) {
    if (full_every == 0 || (i + 1) % full_every != 0) windows[static_cast<size_t>(i)] = window;
  }
  return windows;
}

// One number, or a list of equal ones (Hunyuan writes one a layer).
Result<int64_t> read_uniform(const ConfigFields& text, const char* key, int64_t fallback, int64_t most) {
  if (!text.has(key)) return text.size(key, fallback, most);
  const auto list = text.integers(key, -1, 1, most);
  if (!list) return text.size(key, fallback, most);
  if (list->empty() || std::count(list->begin(), list->end(), list->front()) != static_cast<int64_t>(list->size())) {
    return text.unsupported("differs between layers, which is not supported for this model_type", key);
  }
  return list->front();
}

Result<MoeFfn> read_moe(const ConfigFields& text, const DecoderRules& rules) {
  const MoeRules& moe = rules.moe;
  MoeFfn ffn;
  const char* num_experts =
      text.has(moe.num_experts)
          ? moe.num_experts
          : text.first_of({moe.num_experts, "num_experts", "num_local_experts", "n_routed_experts"});
  ULLAGE_TRY(ffn.num_experts, text.required(num_experts, kMaxExperts, moe.default_num_experts));
  const int64_t fallback_k = moe.default_num_per_token;
  if (fallback_k == 0 && !text.has(moe.num_per_token)) return text.missing(moe.num_per_token);
  ULLAGE_TRY(ffn.num_experts_per_token, read_uniform(text, moe.num_per_token, fallback_k, kMaxExperts));
  if (ffn.num_experts_per_token > ffn.num_experts) {
    return text.invalid(
        fmt::format("{} experts a token are more than the layer's {}", ffn.num_experts_per_token, ffn.num_experts),
        moe.num_per_token);
  }
  // Without a width of its own an expert is as wide as the dense feed-forward.
  if (text.has(moe.width)) {
    ULLAGE_TRY(ffn.intermediate_size, read_uniform(text, moe.width, 0, kMaxIntermediateSize));
  } else if (text.may_omit() && moe.default_width > 0) {
    ffn.intermediate_size = moe.default_width;
  } else {
    ULLAGE_TRY(ffn.intermediate_size, text.required("intermediate_size", kMaxIntermediateSize, moe.default_width));
  }
  if (moe.shared_width != nullptr) {
    ULLAGE_TRY(ffn.shared_intermediate_size, text.count(moe.shared_width, moe.default_shared, kMaxIntermediateSize));
  } else if (moe.num_shared != nullptr) {
    int64_t num_shared = moe.default_shared;
    if (text.has(moe.num_shared)) {
      if (text.is_list(moe.num_shared)) {
        ULLAGE_TRY(num_shared, read_uniform(text, moe.num_shared, 1, kMaxExperts));
      } else {
        ULLAGE_TRY(num_shared, text.count(moe.num_shared, moe.default_shared, kMaxExperts));
      }
    }
    ffn.shared_intermediate_size = num_shared * ffn.intermediate_size;
  }
  ffn.has_shared_expert_gate = moe.has_shared_gate && ffn.shared_intermediate_size > 0;
  ffn.has_router_bias = moe.has_router_bias;
  ffn.has_bias = moe.has_bias;
  ffn.is_gated = rules.is_gated;
  return ffn;
}

}  // namespace

Result<std::vector<bool>> read_sparse_layers(const ConfigFields& text, int64_t first_dense, int64_t num_layers) {
  std::vector<bool> sparse(static_cast<size_t>(num_layers), true);
  if (text.has("mlp_layer_types")) {
    ULLAGE_TRY(const std::vector<std::string> types, text.texts("mlp_layer_types", num_layers));
    for (size_t i = 0; i < sparse.size(); ++i) {
      if (types[i] != "sparse" && types[i] != "dense") {
        return text.unsupported(fmt::format("{} is not supported; dense and sparse are", quote(types[i])),
                                fmt::format("mlp_layer_types/{}", i));
      }
      sparse[i] = types[i] == "sparse";
    }
    return sparse;
  }
  if (text.is_list("moe_layer_freq")) {
    ULLAGE_TRY(const std::vector<int64_t> list, text.integers("moe_layer_freq", num_layers, 0, 1));
    for (size_t i = 0; i < sparse.size(); ++i) sparse[i] = list[i] == 1;
    return sparse;
  }
  const char* first_key = text.first_of({"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"});
  ULLAGE_TRY(const int64_t first, text.count(first_key, first_dense, kMaxLayers));
  ULLAGE_TRY(const int64_t freq, text.size("moe_layer_freq", 1, kMaxLayers));
  ULLAGE_TRY(const int64_t step,
             text.size(text.first_of({"decoder_sparse_step", "moe_layer_interval"}), 1, kMaxLayers));
  ULLAGE_TRY(const int64_t end, text.integer("moe_layer_end_index", -1));
  for (int64_t i = 0; i < num_layers; ++i) {
    sparse[static_cast<size_t>(i)] = i >= first && i % freq == 0 && (i + 1) % step == 0 && (end < 0 || i <= end);
  }
  if (text.has("mlp_only_layers")) {
    ULLAGE_TRY(const std::vector<int64_t> dense, text.integers("mlp_only_layers", -1, 0, num_layers - 1));
    for (const int64_t layer : dense) sparse[static_cast<size_t>(layer)] = false;
  }
  return sparse;
}

Result<Attention> read_attention(const ConfigSource& source, const DecoderRules& rules, ModelShape& shape) {
  const ConfigFields& text = source.text;
  Attention attention;
  ULLAGE_TRY(attention.num_heads, text.required("num_attention_heads", kMaxHeads, rules.defaults.num_heads));
  ULLAGE_TRY(attention.num_kv_heads, read_num_kv_heads(text, rules.defaults.num_kv_heads, attention.num_heads));
  ULLAGE_TRY(attention.head_dim, read_head_dim(text, rules.defaults.head_dim, shape.hidden_size, attention.num_heads));
  ULLAGE_TRY(attention.rope,
             parse_config_rope(text, attention.head_dim, shape, {.default_theta = rules.default_theta}));
  ULLAGE_TRY(attention.has_qkv_bias, read_flag(text, rules.qkv_bias));
  ULLAGE_TRY(attention.has_output_bias, read_flag(text, rules.output_bias));
  ULLAGE_TRY(attention.has_qk_norm, read_flag(text, rules.qk_norm));
  attention.qk_norm_spans_heads = rules.qk_norm_spans_heads;
  attention.has_sinks = rules.has_sinks;
  ULLAGE_TRY_VOID(check_attention(attention, text.where()));
  return attention;
}

Result<void> read_decoder_layers(const ConfigSource& source, const DecoderRules& rules, int64_t num_layers,
                                 ModelShape& shape) {
  const ConfigFields& text = source.text;
  ULLAGE_TRY(const Attention attention, read_attention(source, rules, shape));
  ULLAGE_TRY(const std::vector<int64_t> windows, read_windows(text, rules, num_layers));
  ULLAGE_TRY(const Rope local_rope, parse_config_rope(text, attention.head_dim, shape,
                                                      {.layer_type = "sliding_attention",
                                                       .default_theta = rules.default_theta,
                                                       .local_theta = rules.local_theta}));

  const bool is_sparse = rules.moe.num_experts != nullptr;
  std::vector<bool> sparse(static_cast<size_t>(num_layers), false);
  LayerShape dense{attention, DenseFfn{}};
  LayerShape experts{attention, MoeFfn{}};
  if (is_sparse) {
    ULLAGE_TRY(sparse, read_sparse_layers(text, rules.moe.first_dense, num_layers));
    ULLAGE_TRY(experts.ffn, read_moe(text, rules));
  }
  if (std::find(sparse.begin(), sparse.end(), false) != sparse.end()) {
    DenseFfn ffn;
    ULLAGE_TRY(ffn.intermediate_size,
               text.required("intermediate_size", kMaxIntermediateSize, rules.defaults.intermediate_size));
    ULLAGE_TRY(ffn.has_bias, read_flag(text, rules.ffn_bias));
    ffn.is_gated = rules.is_gated;
    dense.ffn = ffn;
  }
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (size_t i = 0; i < windows.size(); ++i) {
    shape.layers.push_back(sparse[i] ? experts : dense);
    auto& mixer = std::get<Attention>(shape.layers.back().mixer);
    mixer.sliding_window = windows[i];
    if (windows[i] > 0) mixer.rope = local_rope;
  }
  return {};
}

Result<void> read_decoder_with(const ConfigSource& source, const DecoderRules& rules, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = rules.architecture;
  shape.norm = rules.norm;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, rules.defaults, shape));
  ULLAGE_TRY(shape.norm.is_shared, read_flag(text, rules.is_parallel));
  ULLAGE_TRY(shape.has_output_head_bias, read_flag(text, rules.head_bias));
  ULLAGE_TRY_VOID(read_decoder_layers(source, rules, num_layers, shape));
  return read_draft_layers(source, shape);
}

Result<void> read_draft_layers(const ConfigSource& source, ModelShape& shape) {
  const char* key = source.text.first_of({"num_nextn_predict_layers", "num_mtp_modules"});
  ULLAGE_TRY(const int64_t num_draft, source.text.count(key, 0, kMaxLayers));
  // They are built as the last layer is.
  if (num_draft > 0) shape.draft_layers.assign(static_cast<size_t>(num_draft), shape.layers.back());
  return {};
}

Result<void> read_decoder(const ConfigSource& source, ModelShape& shape) {
  return read_decoder_with(source, *find_decoder_rules(source.model_type), shape);
}

}  // namespace ullage::model
