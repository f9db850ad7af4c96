// Llama 4: chunks with a rotation, and full attention without; experts on every step-th layer beside a shared one.
#include <vector>

#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

constexpr DecoderRules kLlama4{.model_type = "llama4_text",
                               .architecture = "llama4",
                               .defaults = {202048, 5120, 8192, 48, 40, 8, 128, 131072},
                               .qkv_bias = {"attention_bias", false},
                               .output_bias = {"attention_bias", false}};

// 1: the layer rotates, and attends within its chunk. An empty list is as good as none.
Result<std::vector<int64_t>> read_rope_layers(const ConfigFields& text, int64_t num_layers) {
  const bool has_list = text.is_list("no_rope_layers");
  if (has_list) {
    ULLAGE_TRY(std::vector<int64_t> list, text.integers("no_rope_layers", -1, 0, 1));
    if (static_cast<int64_t>(list.size()) == num_layers) return list;
    if (!list.empty()) return text.invalid("expected one entry for each of the layers", "no_rope_layers");
  }
  ULLAGE_TRY(const int64_t interval, text.size("no_rope_layer_interval", 4, kMaxLayers));
  std::vector<int64_t> rope(static_cast<size_t>(num_layers), 1);
  for (int64_t i = 0; i < num_layers; ++i) rope[static_cast<size_t>(i)] = (i + 1) % interval != 0 ? 1 : 0;
  return rope;
}

Result<std::vector<bool>> read_expert_layers(const ConfigFields& text, int64_t num_layers) {
  std::vector<bool> sparse(static_cast<size_t>(num_layers), false);
  if (text.is_list("moe_layers")) {
    ULLAGE_TRY(const std::vector<int64_t> list, text.integers("moe_layers", -1, 0, num_layers - 1));
    for (const int64_t layer : list) sparse[static_cast<size_t>(layer)] = true;
    return sparse;
  }
  ULLAGE_TRY(const int64_t step, text.size("interleave_moe_layer_step", 1, kMaxLayers));
  for (int64_t i = step - 1; i < num_layers; i += step) sparse[static_cast<size_t>(i)] = true;
  return sparse;
}

}  // namespace

Result<void> read_llama4(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = kLlama4.architecture;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kLlama4.defaults, shape));
  ULLAGE_TRY(const Attention attention, read_attention(source, kLlama4, shape));
  ULLAGE_TRY(const std::vector<int64_t> rope, read_rope_layers(text, num_layers));
  ULLAGE_TRY(const std::vector<bool> sparse, read_expert_layers(text, num_layers));
  ULLAGE_TRY(const int64_t chunk, text.count("attention_chunk_size", 8192, kMaxPositions));
  MoeFfn moe;
  ULLAGE_TRY(moe.num_experts, text.required("num_local_experts", kMaxExperts, 16));
  ULLAGE_TRY(moe.num_experts_per_token, text.size("num_experts_per_tok", 1, moe.num_experts));
  ULLAGE_TRY(moe.intermediate_size,
             text.required("intermediate_size", kMaxIntermediateSize, kLlama4.defaults.intermediate_size));
  moe.shared_intermediate_size = moe.intermediate_size;
  DenseFfn dense;
  ULLAGE_TRY(dense.intermediate_size, text.size("intermediate_size_mlp", 16384, kMaxIntermediateSize));
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (size_t i = 0; i < sparse.size(); ++i) {
    LayerShape layer{attention, dense};
    if (sparse[i]) layer.ffn = moe;
    auto& mixer = std::get<Attention>(layer.mixer);
    if (rope[i] != 0) {
      mixer.chunk = chunk;
    } else {
      mixer.rope.rotary_dim = 0;
    }
    shape.layers.push_back(layer);
  }
  return {};
}

}  // namespace ullage::model
