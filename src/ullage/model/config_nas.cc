// Layers that a search has thinned out: NVIDIA's Llama-Nemotron (block_configs) and DeciLM (heads by layer).
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

constexpr DecoderRules kNas{.model_type = "nemotron-nas",
                            .architecture = "deci",
                            .defaults = {128256, 8192, 28672, 80, 64, 8, 0, 131072},
                            .qkv_bias = {"attention_bias", false},
                            .output_bias = {"attention_bias", false},
                            .ffn_bias = {"mlp_bias", false}};

// Blocks that were replaced by one matrix are of a kind of their own.
Result<void> refuse_linear(const ConfigFields& block) {
  ULLAGE_TRY(const bool is_linear, block.flag("replace_with_linear", false));
  if (!is_linear) return {};
  return block.unsupported("blocks that are replaced by one linear layer are not supported", "replace_with_linear");
}

Result<void> read_block_attention(const ConfigFields& block, const Attention& base, LayerShape& layer) {
  ULLAGE_TRY_VOID(refuse_linear(block));
  ULLAGE_TRY(const bool is_absent, block.flag("no_op", false));
  if (is_absent) {
    layer.mixer = NoMixer{};
    return {};
  }
  Attention attention = base;
  ULLAGE_TRY(const int64_t group, block.size("n_heads_in_group", base.num_heads / base.num_kv_heads, kMaxHeads));
  if (attention.num_heads % group != 0) {
    return block.invalid(fmt::format("{} heads cannot be in groups of {}", attention.num_heads, group),
                         "n_heads_in_group");
  }
  attention.num_kv_heads = attention.num_heads / group;
  ULLAGE_TRY(attention.sliding_window, block.count("window_length", 0, kMaxPositions));
  layer.mixer = attention;
  return {};
}

// DeciLM's rule: two thirds of the multiple of the hidden size, up to the next multiple of 256.
Result<int64_t> read_block_width(const ConfigFields& block, int64_t hidden) {
  if (block.has("intermediate_size")) return block.size("intermediate_size", 0, kMaxIntermediateSize);
  if (!block.has("ffn_mult")) return block.missing("ffn_mult");
  ULLAGE_TRY(const double factor, block.positive("ffn_mult", 1.0));
  const double width = 2.0 * factor * static_cast<double>(hidden) / 3.0;
  if (width > static_cast<double>(kMaxIntermediateSize)) {
    return block.invalid(fmt::format("is {}; feed-forwards of at most {} were expected", factor, kMaxIntermediateSize),
                         "ffn_mult");
  }
  const int64_t rounded = (static_cast<int64_t>(width) + 255) / 256 * 256;
  return check_size(rounded, kMaxIntermediateSize, block.at("ffn_mult"));
}

Result<void> read_block_ffn(const ConfigFields& block, int64_t hidden, bool has_bias, LayerShape& layer) {
  ULLAGE_TRY_VOID(refuse_linear(block));
  ULLAGE_TRY(const bool is_absent, block.flag("no_op", false));
  if (is_absent) {
    layer.ffn = NoFfn{};
    return {};
  }
  if (block.has("moe")) return block.unsupported("experts in single blocks are not supported", "moe");
  DenseFfn ffn{0, has_bias, true};
  ULLAGE_TRY(ffn.intermediate_size, read_block_width(block, hidden));
  layer.ffn = ffn;
  return {};
}

}  // namespace

Result<void> read_nas(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = kNas.architecture;
  ULLAGE_TRY(const int64_t num_layers, read_common(source, kNas.defaults, shape));
  ULLAGE_TRY(const Attention base, read_attention(source, kNas, shape));
  ULLAGE_TRY(const bool has_bias, text.flag("mlp_bias", false));
  if (!text.has("block_configs")) {
    // DeciLM-7B: only the key and value heads differ.
    if (!text.has("num_key_value_heads_per_layer")) return text.missing("block_configs");
    ULLAGE_TRY(const std::vector<int64_t> heads,
               text.integers("num_key_value_heads_per_layer", num_layers, 1, kMaxHeads));
    DenseFfn ffn{0, has_bias, true};
    ULLAGE_TRY(ffn.intermediate_size, text.required("intermediate_size", kMaxIntermediateSize));
    shape.layers.reserve(heads.size());
    for (const int64_t num_kv_heads : heads) {
      Attention attention = base;
      attention.num_kv_heads = num_kv_heads;
      ULLAGE_TRY_VOID(check_attention(attention, text.where()));
      shape.layers.push_back(LayerShape{attention, ffn});
    }
    return {};
  }
  if (text.num_entries("block_configs") != num_layers) {
    return text.invalid(fmt::format("expected one entry for each of the {} layers", num_layers), "block_configs");
  }
  const Json& blocks = text.object()["block_configs"];
  shape.layers.reserve(static_cast<size_t>(num_layers));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string at = text.at(fmt::format("block_configs/{}", i));
    if (!blocks[i].is_object()) return Error{ErrorCode::kInvalidArgument, "expected an object", at};
    const ConfigFields block(blocks[i], at, false);
    for (const char* key : {"attention", "ffn"}) {
      if (!block.has(key)) return block.missing(key);
    }
    LayerShape layer{base, NoFfn{}};
    ULLAGE_TRY(const ConfigFields attention, block.section("attention", false));
    ULLAGE_TRY_VOID(read_block_attention(attention, base, layer));
    ULLAGE_TRY(const ConfigFields ffn, block.section("ffn", false));
    ULLAGE_TRY_VOID(read_block_ffn(ffn, shape.hidden_size, has_bias, layer));
    shape.layers.push_back(layer);
  }
  return {};
}

}  // namespace ullage::model
