// Decoders whose sliding layers have other heads than their full ones: Step 3.5 and 3.7, Laguna, MiMo V2 Flash.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/quote.h"
#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

constexpr DecoderRules kStep{.model_type = "step3p5",
                             .architecture = "step35",
                             .defaults = {128815, 4096, 11264, 45, 64, 8, 128, 128000},
                             .qkv_bias = {"attention_bias", false},
                             .output_bias = {"attention_bias", false},
                             .qk_norm = {nullptr, true}};
constexpr DecoderRules kLaguna{.model_type = "laguna",
                               .architecture = "laguna",
                               .defaults = {100352, 2048, 8192, 40, 48, 8, 128, 131072},
                               .qkv_bias = {"attention_bias", false},
                               .output_bias = {"attention_bias", false},
                               .qk_norm = {nullptr, true}};
constexpr DecoderRules kMimo{.model_type = "mimo_v2_flash",
                             .architecture = "mimo2",
                             .defaults = {152576, 4096, 16384, 48, 64, 4, 192, 131072},
                             .qkv_bias = {"attention_bias", false}};

// One flag a layer. The list may go on with draft layers' entries.
Result<std::vector<bool>> read_sliding(const ConfigFields& text, int64_t num_layers, int64_t num_draft) {
  std::vector<bool> sliding(static_cast<size_t>(num_layers), false);
  if (!text.has("layer_types")) return sliding;
  const bool has_drafts =
      num_draft > 0 && text.is_list("layer_types") && text.num_entries("layer_types") == num_layers + num_draft;
  ULLAGE_TRY(const std::vector<std::string> types,
             text.texts("layer_types", has_drafts ? num_layers + num_draft : num_layers));
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

Result<MoeFfn> read_experts(const ConfigFields& text, const char* num_key, const char* per_token_key,
                            int64_t num_default, int64_t per_token_default, int64_t width_default) {
  MoeFfn moe;
  ULLAGE_TRY(moe.num_experts, text.required(num_key, kMaxExperts, num_default));
  ULLAGE_TRY(moe.num_experts_per_token, text.size(per_token_key, per_token_default, moe.num_experts));
  ULLAGE_TRY(moe.intermediate_size, text.required("moe_intermediate_size", kMaxIntermediateSize, width_default));
  moe.has_router_bias = true;
  return moe;
}

// "3,4,5": the layers with experts, as Step's files list them.
Result<std::vector<bool>> read_enumerated(const ConfigFields& text, int64_t num_layers) {
  std::vector<bool> sparse(static_cast<size_t>(num_layers), false);
  ULLAGE_TRY(const std::string list, text.text("moe_layers_enum", ""));
  const char* at = list.data();
  const char* end = at + list.size();
  while (at < end) {
    int64_t layer = -1;
    const auto [next, error] = std::from_chars(at, end, layer);
    if (error != std::errc() || layer < 0 || (next < end && *next != ',')) {
      return text.invalid("expected layers' numbers with commas between", "moe_layers_enum");
    }
    if (layer < num_layers) sparse[static_cast<size_t>(layer)] = true;  // beyond: draft layers
    at = next < end ? next + 1 : next;
  }
  return sparse;
}

}  // namespace

Result<void> read_step(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = kStep.architecture;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kStep.defaults, shape));
  ULLAGE_TRY(Attention full, read_attention(source, kStep, shape));
  const char* draft_key = text.first_of({"num_nextn_predict_layers", "num_mtp_layers"});
  ULLAGE_TRY(const int64_t num_draft, text.count(draft_key, 0, kMaxLayers));
  ULLAGE_TRY(const std::vector<bool> sliding, read_sliding(text, num_layers, num_draft));
  if (text.has("num_attention_groups")) {
    ULLAGE_TRY(full.num_kv_heads, text.size("num_attention_groups", 8, kMaxHeads));
  }
  ULLAGE_TRY(const bool has_gate, text.flag("use_head_wise_attn_gate", true));
  Attention local = full;
  ULLAGE_TRY(local.sliding_window, text.count("sliding_window", 0, kMaxPositions));
  ULLAGE_TRY(local.num_heads, text.size("num_sliding_attention_heads", full.num_heads, kMaxHeads));
  if (text.has("attention_other_setting")) {
    ULLAGE_TRY(const ConfigFields other, text.section("attention_other_setting", true));
    ULLAGE_TRY(local.num_heads, other.size("num_attention_heads", local.num_heads, kMaxHeads));
    ULLAGE_TRY(local.num_kv_heads, other.size("num_attention_groups", local.num_kv_heads, kMaxHeads));
    ULLAGE_TRY(local.head_dim, other.size("head_dim", local.head_dim, kMaxHeadDim));
  }
  for (Attention* attention : {&full, &local}) {
    if (has_gate) attention->gate_dim = attention->num_heads;
    ULLAGE_TRY_VOID(check_attention(*attention, text.where()));
  }

  const char* experts_key = text.first_of({"n_routed_experts", "num_experts", "moe_num_experts"});
  ULLAGE_TRY(MoeFfn moe,
             read_experts(text, experts_key, text.first_of({"num_experts_per_tok", "moe_top_k"}), 288, 8, 1280));
  ULLAGE_TRY(moe.shared_intermediate_size, text.count(text.first_of({"share_expert_dim", "share_expert_dims"}),
                                                      moe.intermediate_size, kMaxIntermediateSize));
  ULLAGE_TRY(moe.has_router_bias, text.flag("use_moe_router_bias", true));
  std::vector<bool> sparse;
  if (text.has("moe_layers_enum") && !text.is_list("moe_layers_enum")) {
    ULLAGE_TRY(sparse, read_enumerated(text, num_layers));
  } else {
    ULLAGE_TRY(sparse, read_sparse_layers(text, 3, num_layers));
  }
  DenseFfn dense;
  ULLAGE_TRY(dense.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kStep.defaults.intermediate_size));
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (sliding[i] && local.sliding_window == 0) {
      return text.invalid("is sliding_attention, but the model has no sliding_window",
                          fmt::format("layer_types/{}", i));
    }
    LayerShape layer{sliding[i] ? local : full, dense};
    if (sparse[i]) layer.ffn = moe;
    shape.layers.push_back(layer);
  }
  // Draft layers slide and are dense (the checkpoints' own lists).
  local.sliding_window = std::max<int64_t>(local.sliding_window, 0);
  shape.draft_layers.assign(static_cast<size_t>(num_draft), LayerShape{local, dense});
  return {};
}

Result<void> read_laguna(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = kLaguna.architecture;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kLaguna.defaults, shape));
  ULLAGE_TRY(const Attention base, read_attention(source, kLaguna, shape));
  ULLAGE_TRY(const std::vector<bool> sliding, read_sliding(text, num_layers, 0));
  ULLAGE_TRY(const int64_t window, text.size("sliding_window", 512, kMaxPositions));
  std::vector<int64_t> heads(static_cast<size_t>(num_layers), base.num_heads);
  if (text.has("num_attention_heads_per_layer")) {
    ULLAGE_TRY(heads, text.integers("num_attention_heads_per_layer", num_layers, 1, kMaxHeads));
  }
  // true or "per-head": a gate a head; "per-element": one for each of its elements.
  const auto gating = text.text("gating", "per-head");
  const bool is_per_head = !gating || *gating == "per-head";
  ULLAGE_TRY(MoeFfn moe, read_experts(text, "num_experts", "num_experts_per_tok", 256, 8, 512));
  ULLAGE_TRY(moe.shared_intermediate_size, text.count("shared_expert_intermediate_size", 512, kMaxIntermediateSize));
  ULLAGE_TRY(const std::vector<bool> sparse, read_sparse_layers(text, 1, num_layers));
  DenseFfn dense;
  ULLAGE_TRY(dense.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kLaguna.defaults.intermediate_size));
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (size_t i = 0; i < sparse.size(); ++i) {
    Attention attention = base;
    attention.num_heads = heads[i];
    attention.gate_dim = is_per_head ? heads[i] : heads[i] * attention.head_dim;
    attention.sliding_window = sliding[i] ? window : 0;
    ULLAGE_TRY_VOID(check_attention(attention, text.where()));
    LayerShape layer{attention, dense};
    if (sparse[i]) layer.ffn = moe;
    shape.layers.push_back(layer);
  }
  return {};
}

Result<void> read_mimo_v2(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = kMimo.architecture;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kMimo.defaults, shape));
  ULLAGE_TRY(Attention full, read_attention(source, kMimo, shape));
  ULLAGE_TRY(full.value_dim, text.size("v_head_dim", 128, kMaxHeadDim));
  ULLAGE_TRY(full.has_sinks, text.flag("add_full_attention_sink_bias", false));
  Attention local = full;
  ULLAGE_TRY(local.num_heads, text.size("swa_num_attention_heads", full.num_heads, kMaxHeads));
  ULLAGE_TRY(local.num_kv_heads, text.size("swa_num_key_value_heads", 2 * full.num_kv_heads, kMaxHeads));
  ULLAGE_TRY(local.head_dim, text.size("swa_head_dim", full.head_dim, kMaxHeadDim));
  ULLAGE_TRY(local.value_dim, text.size("swa_v_head_dim", full.value_dim, kMaxHeadDim));
  ULLAGE_TRY(local.has_sinks, text.flag("add_swa_attention_sink_bias", true));
  ULLAGE_TRY(local.sliding_window,
             text.size(text.first_of({"sliding_window_size", "sliding_window"}), 128, kMaxPositions));
  ULLAGE_TRY_VOID(check_attention(local, text.where()));
  std::vector<bool> sliding(static_cast<size_t>(num_layers), false);
  if (text.has("hybrid_layer_pattern")) {
    ULLAGE_TRY(const std::vector<int64_t> list, text.integers("hybrid_layer_pattern", num_layers, 0, 1));
    for (size_t i = 0; i < sliding.size(); ++i) sliding[i] = list[i] == 1;
  } else if (text.has("layer_types")) {
    ULLAGE_TRY(sliding, read_sliding(text, num_layers, 0));
  } else {
    for (size_t i = 1; i < sliding.size(); ++i) sliding[i] = (i + 1) % 6 != 0;
  }
  ULLAGE_TRY(const MoeFfn moe, read_experts(text, "n_routed_experts", "num_experts_per_tok", 256, 8, 2048));
  ULLAGE_TRY(const std::vector<bool> sparse, read_sparse_layers(text, 1, num_layers));
  DenseFfn dense;
  ULLAGE_TRY(dense.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kMimo.defaults.intermediate_size));
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (size_t i = 0; i < sparse.size(); ++i) {
    LayerShape layer{sliding[i] ? local : full, dense};
    if (sparse[i]) layer.ffn = moe;
    shape.layers.push_back(layer);
  }
  ULLAGE_TRY(const int64_t num_draft, text.count("num_nextn_predict_layers", 0, kMaxLayers));
  shape.draft_layers.assign(static_cast<size_t>(num_draft), LayerShape{local, dense});
  return {};
}

}  // namespace ullage::model
