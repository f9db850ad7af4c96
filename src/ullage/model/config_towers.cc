// Vision towers and their projectors, by the tower's model_type. Sizes as Hugging Face's modelling classes build them.
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/config_sections.h"
#include "ullage/model/config_weights.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

// A vision transformer: what differs between them.
struct Vit {
  int64_t num_layers = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  bool is_gated = false;  // three matrices in the feed-forward
  bool has_qkv_bias = true;
  bool has_bias = true;       // of the other projections
  bool has_norm_bias = true;  // LayerNorm, not RMSNorm
  int64_t norms_per_layer = 2;
  int64_t vectors_per_layer = 0;  // others of `hidden` elements: layer scales
};

void add_norm(OtherWeights& weights, std::string_view name, int64_t size, bool has_bias) {
  weights.vector(name, size);
  if (has_bias) weights.vector(fmt::format("{}.bias", name), size);
}

void add_linear(OtherWeights& weights, std::string_view name, int64_t rows, int64_t columns, bool has_bias,
                Split split = Split::kReplicated) {
  weights.matrix(name, rows, columns, split);
  if (has_bias) weights.vector(fmt::format("{}.bias", name), rows);
}

// vLLM divides a tower's layers over the ranks as it does the language model's (mm_encoder_tp_mode "weights").
void add_vit_layers(OtherWeights& weights, const Vit& vit) {
  weights.set_count(vit.num_layers);
  for (const char* name : {"layers.attn.q_proj", "layers.attn.k_proj", "layers.attn.v_proj"}) {
    add_linear(weights, name, vit.hidden, vit.hidden, vit.has_qkv_bias, Split::kRows);
  }
  add_linear(weights, "layers.attn.proj", vit.hidden, vit.hidden, vit.has_bias, Split::kColumns);
  if (vit.is_gated) {
    add_linear(weights, "layers.mlp.gate_proj", vit.intermediate, vit.hidden, vit.has_bias, Split::kRows);
  }
  add_linear(weights, "layers.mlp.fc1", vit.intermediate, vit.hidden, vit.has_bias, Split::kRows);
  add_linear(weights, "layers.mlp.fc2", vit.hidden, vit.intermediate, vit.has_bias, Split::kColumns);
  for (int64_t i = 0; i < vit.norms_per_layer; ++i) {
    add_norm(weights, fmt::format("layers.norm{}", i + 1), vit.hidden, vit.has_norm_bias);
  }
  for (int64_t i = 0; i < vit.vectors_per_layer; ++i) {
    weights.vector(fmt::format("layers.lambda_{}", i + 1), vit.hidden);
  }
  weights.set_count(1);
}

// The sizes that every tower states, under the names that it uses.
struct TowerKeys {
  const char* layers = "num_hidden_layers";
  const char* hidden = "hidden_size";
  const char* intermediate = "intermediate_size";
};
Result<Vit> read_vit(const ConfigFields& tower, const TowerKeys& keys, const Vit& defaults) {
  Vit vit = defaults;
  ULLAGE_TRY(vit.num_layers, tower.required(keys.layers, kMaxLayers, defaults.num_layers));
  ULLAGE_TRY(vit.hidden, tower.required(keys.hidden, kMaxHiddenSize, defaults.hidden));
  ULLAGE_TRY(vit.intermediate, tower.required(keys.intermediate, kMaxIntermediateSize, defaults.intermediate));
  return vit;
}

// Numbers of one patch, and patches of one image.
Result<int64_t> read_patch(const ConfigFields& tower, int64_t size, int64_t temporal) {
  ULLAGE_TRY(const int64_t channels, tower.size(tower.first_of({"in_channels", "in_chans", "num_channels"}), 3, 64));
  ULLAGE_TRY(const int64_t patch, tower.size("patch_size", size, 256));
  ULLAGE_TRY(const int64_t frames, tower.size("temporal_patch_size", temporal, 64));
  return channels * patch * patch * frames;
}
Result<int64_t> read_num_patches(const ConfigFields& tower, int64_t image, int64_t patch) {
  ULLAGE_TRY(const int64_t image_size, tower.size("image_size", image, 1 << 16));
  ULLAGE_TRY(const int64_t patch_size, tower.size("patch_size", patch, 256));
  return (image_size / patch_size) * (image_size / patch_size);
}

struct Tower {
  const ConfigSource& source;
  const ConfigFields& tower;
  ModelShape& shape;
};

Result<void> add_qwen2_tower(const Tower& t, bool is_2_5) {
  const Vit defaults{32, 1280, is_2_5 ? 3420 : 5120, is_2_5, true, true, !is_2_5};
  const TowerKeys keys{"depth", is_2_5 ? "hidden_size" : "embed_dim", "intermediate_size"};
  Vit vit = defaults;
  ULLAGE_TRY(vit.num_layers, t.tower.required(keys.layers, kMaxLayers, defaults.num_layers));
  ULLAGE_TRY(vit.hidden, t.tower.required(keys.hidden, kMaxHiddenSize, defaults.hidden));
  if (is_2_5) {
    ULLAGE_TRY(vit.intermediate, t.tower.required(keys.intermediate, kMaxIntermediateSize, defaults.intermediate));
  } else {
    ULLAGE_TRY(const int64_t ratio, t.tower.size("mlp_ratio", 4, 64));
    vit.intermediate = ratio * vit.hidden;
  }
  ULLAGE_TRY(const int64_t patch, read_patch(t.tower, 14, 2));
  ULLAGE_TRY(const int64_t merge, t.tower.size("spatial_merge_size", 2, 64));
  OtherWeights weights(t.shape, "visual.", WeightRole::kOther);
  weights.matrix("patch_embed.proj", vit.hidden, patch);
  add_vit_layers(weights, vit);
  const int64_t merged = vit.hidden * merge * merge;
  add_norm(weights, "merger.ln_q", vit.hidden, vit.has_norm_bias);
  add_linear(weights, "merger.mlp.0", merged, merged, true, Split::kRows);
  add_linear(weights, "merger.mlp.2", t.shape.hidden_size, merged, true, Split::kColumns);
  return {};
}

Result<void> add_qwen3_tower(const Tower& t) {
  const Vit defaults{27, 1152, 4304};
  ULLAGE_TRY(const Vit vit, read_vit(t.tower, {"depth", "hidden_size", "intermediate_size"}, defaults));
  ULLAGE_TRY(const int64_t patch, read_patch(t.tower, 16, 2));
  ULLAGE_TRY(const int64_t merge, t.tower.size("spatial_merge_size", 2, 64));
  ULLAGE_TRY(const int64_t positions, t.tower.size("num_position_embeddings", 2304, kMaxPositions));
  ULLAGE_TRY(const int64_t out, t.tower.size("out_hidden_size", t.shape.hidden_size, kMaxHiddenSize));
  int64_t num_deepstack = 0;
  if (t.tower.has("deepstack_visual_indexes")) {
    ULLAGE_TRY(const std::vector<int64_t> list, t.tower.integers("deepstack_visual_indexes", -1, 0, kMaxLayers));
    num_deepstack = static_cast<int64_t>(list.size());
  }
  OtherWeights weights(t.shape, "visual.", WeightRole::kOther);
  add_linear(weights, "patch_embed.proj", vit.hidden, patch, true);
  weights.table("pos_embed", positions, vit.hidden);
  add_vit_layers(weights, vit);
  const int64_t merged = vit.hidden * merge * merge;
  add_norm(weights, "merger.norm", vit.hidden, true);
  add_linear(weights, "merger.linear_fc1", merged, merged, true, Split::kRows);
  add_linear(weights, "merger.linear_fc2", out, merged, true, Split::kColumns);
  if (num_deepstack == 0) return {};
  weights.set_count(num_deepstack);
  add_norm(weights, "deepstack_merger_list.norm", merged, true);
  add_linear(weights, "deepstack_merger_list.linear_fc1", merged, merged, true, Split::kRows);
  add_linear(weights, "deepstack_merger_list.linear_fc2", out, merged, true, Split::kColumns);
  return {};
}

// How many of the tower's layers the projector reads side by side.
int64_t num_feature_layers(const ConfigFields& file) {
  if (!file.is_list("vision_feature_layer")) return 1;
  return std::max<int64_t>(1, static_cast<int64_t>(file.object()["vision_feature_layer"].size()));
}

// CLIP and SigLIP, and LLaVA's projector of two matrices or Gemma 3's of one.
Result<void> add_clip_or_siglip(const Tower& t, bool is_clip) {
  ULLAGE_TRY(const Vit vit, read_vit(t.tower, {}, Vit{12, 768, 3072}));
  ULLAGE_TRY(const int64_t patch, read_patch(t.tower, is_clip ? 32 : 16, 1));
  ULLAGE_TRY(const int64_t patches, read_num_patches(t.tower, 224, is_clip ? 32 : 16));
  OtherWeights weights(t.shape, "vision_tower.", WeightRole::kOther);
  add_linear(weights, "embeddings.patch_embedding", vit.hidden, patch, !is_clip);
  weights.table("embeddings.position_embedding", patches + (is_clip ? 1 : 0), vit.hidden);
  if (is_clip) {
    weights.vector("embeddings.class_embedding", vit.hidden);
    add_norm(weights, "pre_layrnorm", vit.hidden, true);
  }
  add_vit_layers(weights, vit);
  add_norm(weights, "post_layernorm", vit.hidden, true);

  const int64_t text = t.shape.hidden_size;
  weights.set_prefix("multi_modal_projector.");
  if (t.source.root_type == "gemma3" || t.source.root_type == "paligemma") {
    weights.matrix("mm_input_projection", vit.hidden, text);
    if (t.source.root_type == "gemma3") weights.vector("mm_soft_emb_norm", vit.hidden);
    return {};
  }
  ULLAGE_TRY(const bool has_bias, t.source.file.flag("multimodal_projector_bias", true));
  add_linear(weights, "linear_1", text, vit.hidden * num_feature_layers(t.source.file), has_bias);
  add_linear(weights, "linear_2", text, text, has_bias);
  if (t.source.root_type != "llava") weights.vector("image_newline", text);
  return {};
}

Result<void> add_pixtral(const Tower& t) {
  const Vit defaults{24, 1024, 4096, true, false, false, false};
  ULLAGE_TRY(const Vit vit, read_vit(t.tower, {}, defaults));
  ULLAGE_TRY(const int64_t patch, read_patch(t.tower, 16, 1));
  OtherWeights weights(t.shape, "vision_tower.", WeightRole::kOther);
  weights.matrix("patch_conv", vit.hidden, patch);
  weights.vector("ln_pre", vit.hidden);
  add_vit_layers(weights, vit);
  weights.set_prefix("multi_modal_projector.");
  const bool is_mistral3 = t.source.root_type == "mistral3";
  ULLAGE_TRY(const bool has_bias, t.source.file.flag("multimodal_projector_bias", !is_mistral3));
  if (is_mistral3) {
    ULLAGE_TRY(const int64_t merge, t.source.file.size("spatial_merge_size", 2, 64));
    weights.vector("norm", vit.hidden);
    weights.matrix("patch_merger.merging_layer", vit.hidden, vit.hidden * merge * merge);
  }
  add_linear(weights, "linear_1", t.shape.hidden_size, vit.hidden * num_feature_layers(t.source.file), has_bias);
  add_linear(weights, "linear_2", t.shape.hidden_size, t.shape.hidden_size, has_bias);
  return {};
}

Result<void> add_gemma4_tower(const Tower& t) {
  Vit vit{16, 768, 3072, true, false, false, false, 4};
  ULLAGE_TRY(vit, read_vit(t.tower, {}, vit));
  ULLAGE_TRY(const int64_t head_dim, t.tower.size("head_dim", 64, kMaxHeadDim));
  ULLAGE_TRY(const int64_t patch, read_patch(t.tower, 16, 1));
  ULLAGE_TRY(const int64_t positions, t.tower.size("position_embedding_size", 10240, kMaxPositions));
  OtherWeights weights(t.shape, "vision_tower.", WeightRole::kOther);
  weights.matrix("patch_embedder.input_proj", vit.hidden, patch);
  weights.table("patch_embedder.position_embedding_table", 2 * positions, vit.hidden);
  add_vit_layers(weights, vit);
  weights.set_count(vit.num_layers);
  weights.vector("layers.attn.q_norm", head_dim);
  weights.vector("layers.attn.k_norm", head_dim);
  weights.set_count(1);
  weights.set_prefix("embed_vision.");
  weights.matrix("embedding_projection", t.shape.hidden_size, vit.hidden);
  return {};
}

Result<void> add_kimi_tower(const Tower& t) {
  const Vit defaults{27, 1152, 4304};
  ULLAGE_TRY(const Vit vit, read_vit(t.tower,
                                     {t.tower.first_of({"vt_num_hidden_layers", "num_hidden_layers"}),
                                      t.tower.first_of({"vt_hidden_size", "hidden_size"}),
                                      t.tower.first_of({"vt_intermediate_size", "intermediate_size"})},
                                     defaults));
  ULLAGE_TRY(const int64_t patch, read_patch(t.tower, 14, 1));
  ULLAGE_TRY(const int64_t height, t.tower.size("init_pos_emb_height", 64, kMaxHiddenSize));
  ULLAGE_TRY(const int64_t width, t.tower.size("init_pos_emb_width", 64, kMaxHiddenSize));
  OtherWeights weights(t.shape, "vision_tower.", WeightRole::kOther);
  add_linear(weights, "patch_embed.proj", vit.hidden, patch, true);
  weights.table("patch_embed.pos_emb", height * width, vit.hidden);
  add_vit_layers(weights, vit);
  add_norm(weights, "final_layernorm", vit.hidden, true);
  weights.set_prefix("mm_projector.");
  add_norm(weights, "pre_norm", vit.hidden, true);
  add_linear(weights, "linear_1", 4 * vit.hidden, 4 * vit.hidden, true);
  add_linear(weights, "linear_2", t.shape.hidden_size, 4 * vit.hidden, true);
  return {};
}

Result<void> add_llama4_tower(const Tower& t) {
  const Vit defaults{34, 768, 5632};
  ULLAGE_TRY(const Vit vit, read_vit(t.tower, {}, defaults));
  ULLAGE_TRY(const int64_t patch, read_patch(t.tower, 14, 1));
  ULLAGE_TRY(const int64_t patches, read_num_patches(t.tower, 448, 14));
  ULLAGE_TRY(const int64_t in, t.tower.size("projector_input_dim", 4096, kMaxHiddenSize));
  ULLAGE_TRY(const int64_t out, t.tower.size("projector_output_dim", 4096, kMaxHiddenSize));
  ULLAGE_TRY(const int64_t vision_out, t.tower.size("vision_output_dim", 7680, kMaxHiddenSize));
  OtherWeights weights(t.shape, "vision_model.", WeightRole::kOther);
  weights.vector("class_embedding", vit.hidden);
  weights.table("positional_embedding_vlm", patches + 1, vit.hidden);
  weights.matrix("patch_embedding.linear", vit.hidden, patch);
  add_norm(weights, "layernorm_pre", vit.hidden, true);
  add_norm(weights, "layernorm_post", vit.hidden, true);
  add_vit_layers(weights, vit);
  weights.matrix("vision_adapter.mlp.fc1", in, vit.intermediate);
  weights.matrix("vision_adapter.mlp.fc2", out, in);
  weights.set_prefix("multi_modal_projector.");
  weights.matrix("linear_1", t.shape.hidden_size, vision_out);
  return {};
}

// dots.ocr's own vision transformer: RMS norms, a gated feed-forward, Qwen2-VL's merger.
Result<void> add_dots_tower(const Tower& t) {
  Vit defaults{42, 1536, 4224, true, false, false, false};
  ULLAGE_TRY(defaults.has_bias, t.tower.flag("use_bias", false));
  defaults.has_qkv_bias = defaults.has_bias;
  ULLAGE_TRY(
      const Vit vit,
      read_vit(t.tower, {"num_hidden_layers", t.tower.first_of({"embed_dim", "hidden_size"}), "intermediate_size"},
               defaults));
  ULLAGE_TRY(const int64_t patch, read_patch(t.tower, 14, 1));
  ULLAGE_TRY(const int64_t merge, t.tower.size("spatial_merge_size", 2, 64));
  OtherWeights weights(t.shape, "vision_tower.", WeightRole::kOther);
  add_linear(weights, "patch_embed.proj", vit.hidden, patch, true);
  weights.vector("patch_embed.norm", vit.hidden);
  add_vit_layers(weights, vit);
  weights.vector("post_trunk_norm", vit.hidden);
  const int64_t merged = vit.hidden * merge * merge;
  add_norm(weights, "merger.ln_q", vit.hidden, true);
  add_linear(weights, "merger.mlp.0", merged, merged, true, Split::kRows);
  add_linear(weights, "merger.mlp.2", t.shape.hidden_size, merged, true, Split::kColumns);
  return {};
}

Result<void> add_intern_tower(const Tower& t) {
  Vit defaults{24, 1024, 4096, false, false, true, true, 2, 2};
  ULLAGE_TRY(defaults.has_qkv_bias, t.tower.flag(t.tower.first_of({"attention_bias", "qkv_bias"}), false));
  ULLAGE_TRY(const Vit vit, read_vit(t.tower, {}, defaults));
  // image_size and patch_size are numbers, or lists of two equal ones.
  const auto side = [&](const char* key, int64_t fallback) -> Result<int64_t> {
    if (!t.tower.is_list(key)) return t.tower.size(key, fallback, 1 << 16);
    ULLAGE_TRY(const std::vector<int64_t> list, t.tower.integers(key, -1, 1, 1 << 16));
    return list.empty() ? fallback : list.front();
  };
  ULLAGE_TRY(const int64_t image, side("image_size", 448));
  ULLAGE_TRY(const int64_t patch, side("patch_size", 14));
  ULLAGE_TRY(const double ratio, t.source.file.positive("downsample_ratio", 0.5));
  const auto merge = static_cast<int64_t>(std::llround(1.0 / std::min(std::max(ratio, 1.0 / 64.0), 1.0)));
  OtherWeights weights(t.shape, "vision_tower.", WeightRole::kOther);
  weights.vector("embeddings.cls_token", vit.hidden);
  weights.table("embeddings.position_embeddings", (image / patch) * (image / patch) + 1, vit.hidden);
  add_linear(weights, "embeddings.patch_embeddings", vit.hidden, 3 * patch * patch, true);
  add_vit_layers(weights, vit);
  const int64_t merged = vit.hidden * merge * merge;
  weights.set_prefix("multi_modal_projector.");
  add_norm(weights, "layer_norm", merged, true);
  add_linear(weights, "linear_1", t.shape.hidden_size, merged, true);
  add_linear(weights, "linear_2", t.shape.hidden_size, t.shape.hidden_size, true);
  return {};
}

Result<void> add_tower(const Tower& t) {
  const std::string_view root = t.source.root_type;
  if (root == "qwen2_vl" || root == "qwen2_5_vl") return add_qwen2_tower(t, root == "qwen2_5_vl");
  if (root.starts_with("qwen3_vl") || root.starts_with("qwen3_5")) return add_qwen3_tower(t);
  if (root == "kimi_k25" || root == "kimi_vl") return add_kimi_tower(t);
  if (root == "llama4") return add_llama4_tower(t);
  if (root == "dots_ocr") return add_dots_tower(t);
  if (root == "internvl" || root == "internvl_chat") return add_intern_tower(t);
  if (root.starts_with("gemma4")) return add_gemma4_tower(t);
  ULLAGE_TRY(const std::string type, t.tower.text("model_type", ""));
  if (type == "clip_vision_model") return add_clip_or_siglip(t, true);
  if (type == "siglip_vision_model") return add_clip_or_siglip(t, false);
  if (type == "pixtral") return add_pixtral(t);
  return t.tower.unsupported(
      fmt::format("the vision tower {} is not known, so the model's weights cannot be counted; known are those of "
                  "LLaVA (CLIP, SigLIP), Pixtral, Gemma 3 and 4, Qwen2-VL to Qwen3.5, Kimi K2.5, Llama 4, InternVL "
                  "and dots.ocr",
                  quote(type.empty() ? std::string(root) : type)),
      "model_type");
}

}  // namespace

Result<void> read_towers(const ConfigSource& source, ModelShape& shape) {
  for (const char* key : {"audio_config", "speech_config"}) {
    if (!source.file.has(key)) continue;
    return source.file.unsupported("audio towers are not counted yet, so the model's weights would be too few", key);
  }
  if (!source.file.has("vision_config")) return {};
  ULLAGE_TRY(const ConfigFields tower, source.file.section("vision_config", true));
  return add_tower({source, tower, shape});
}

}  // namespace ullage::model
