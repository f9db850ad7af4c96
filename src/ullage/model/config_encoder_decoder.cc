// Encoder-decoders: Whisper, BART and its like, T5 and its like. The decoder's layers are the shape's; the encoder is
// among the other weights.
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ullage/model/config_readers.h"
#include "ullage/model/config_weights.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

struct EncoderLayer {
  int64_t num_layers = 0;
  int64_t hidden = 0;
  int64_t inner = 0;  // of all heads
  int64_t intermediate = 0;
  bool is_gated = false;
  bool has_bias = false;
  bool has_key_bias = false;
  bool has_norm_bias = false;
};

void add_encoder(OtherWeights& weights, const EncoderLayer& e) {
  weights.set_count(e.num_layers);
  for (const char* name : {"layers.self_attn.q_proj", "layers.self_attn.k_proj", "layers.self_attn.v_proj"}) {
    weights.matrix(name, e.inner, e.hidden);
    const bool is_key = std::string_view(name).ends_with("k_proj");
    if (is_key ? e.has_key_bias : e.has_bias) weights.vector(fmt::format("{}.bias", name), e.inner);
  }
  weights.matrix("layers.self_attn.out_proj", e.hidden, e.inner);
  if (e.is_gated) weights.matrix("layers.gate", e.intermediate, e.hidden);
  weights.matrix("layers.fc1", e.intermediate, e.hidden);
  weights.matrix("layers.fc2", e.hidden, e.intermediate);
  if (e.has_bias) {
    weights.vector("layers.self_attn.out_proj.bias", e.hidden);
    weights.vector("layers.fc1.bias", e.intermediate);
    weights.vector("layers.fc2.bias", e.hidden);
  }
  for (const char* name : {"layers.self_attn_layer_norm", "layers.final_layer_norm"}) {
    weights.vector(name, e.hidden);
    if (e.has_norm_bias) weights.vector(fmt::format("{}.bias", name), e.hidden);
  }
  weights.set_count(1);
}

void add_norm(OtherWeights& weights, std::string_view name, int64_t size) {
  weights.vector(name, size);
  weights.vector(fmt::format("{}.bias", name), size);
}

LayerShape decoder_layer(const Attention& attention, const DenseFfn& ffn, int64_t max_encoder_len) {
  LayerShape layer{attention, ffn};
  layer.cross_attention = attention;
  layer.cross_attention->max_encoder_len = max_encoder_len;
  return layer;
}

struct BartRules {
  const char* model_type;
  bool has_positions;  // learned; else sines that are not stored
  bool has_embedding_norm;
  bool has_final_norm;
  int64_t vocab_size;
};
constexpr BartRules kBarts[] = {
    {"bart", true, true, false, 50265},      {"mbart", true, true, true, 50265},
    {"marian", false, false, false, 58101},  {"pegasus", false, false, true, 50265},
    {"m2m_100", false, false, true, 128112},
};

}  // namespace

Result<void> read_whisper(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "whisper";
  shape.norm.has_bias = true;
  ULLAGE_TRY_VOID(read_common_extras(source, {.is_tied = true}, shape));
  ULLAGE_TRY(shape.vocab_size, text.required("vocab_size", kMaxVocabSize));
  ULLAGE_TRY(shape.hidden_size, text.required("d_model", kMaxHiddenSize));
  ULLAGE_TRY(shape.max_position_embeddings, text.size("max_target_positions", 448, kMaxPositions));
  ULLAGE_TRY(shape.max_encoder_len, text.size("max_source_positions", 1500, kMaxPositions));
  ULLAGE_TRY(const int64_t num_layers, text.required("decoder_layers", kMaxLayers));
  Attention attention;
  ULLAGE_TRY(attention.num_heads, text.required("decoder_attention_heads", kMaxHeads));
  attention.num_kv_heads = attention.num_heads;
  ULLAGE_TRY(attention.head_dim, read_head_dim(text, 0, shape.hidden_size, attention.num_heads));
  attention.has_qkv_bias = attention.has_output_bias = true;
  attention.has_key_bias = false;
  DenseFfn ffn{0, true, false};
  ULLAGE_TRY(ffn.intermediate_size, text.required("decoder_ffn_dim", kMaxIntermediateSize));
  shape.layers.assign(static_cast<size_t>(num_layers), decoder_layer(attention, ffn, shape.max_encoder_len));

  const int64_t hidden = shape.hidden_size;
  EncoderLayer encoder{0, hidden, hidden, 0, false, true, false, true};
  ULLAGE_TRY(encoder.num_layers, text.required("encoder_layers", kMaxLayers));
  ULLAGE_TRY(encoder.intermediate, text.required("encoder_ffn_dim", kMaxIntermediateSize));
  ULLAGE_TRY(const int64_t mels, text.size("num_mel_bins", 80, 4096));
  OtherWeights weights(shape, "decoder.", WeightRole::kOther);
  weights.table("embed_positions", shape.max_position_embeddings, hidden);
  weights.set_prefix("encoder.");
  weights.matrix("conv1", hidden, 3 * mels);
  weights.vector("conv1.bias", hidden);
  weights.matrix("conv2", hidden, 3 * hidden);
  weights.vector("conv2.bias", hidden);
  weights.table("embed_positions", shape.max_encoder_len, hidden);
  add_encoder(weights, encoder);
  add_norm(weights, "layer_norm", hidden);
  return {};
}

Result<void> read_bart(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  const BartRules* rules = &kBarts[0];
  for (const BartRules& row : kBarts) {
    if (source.model_type == row.model_type) rules = &row;
  }
  shape.architecture = rules->model_type;
  shape.norm.has_bias = true;
  shape.norm.has_final = rules->has_final_norm;
  ULLAGE_TRY_VOID(read_common_extras(source, {.is_tied = true}, shape));
  ULLAGE_TRY(shape.vocab_size, text.required("vocab_size", kMaxVocabSize));
  ULLAGE_TRY(shape.hidden_size, text.required("d_model", kMaxHiddenSize));
  ULLAGE_TRY(shape.max_position_embeddings, text.size("max_position_embeddings", 1024, kMaxPositions));
  shape.max_encoder_len = shape.max_position_embeddings;
  ULLAGE_TRY(const int64_t num_layers, text.required("decoder_layers", kMaxLayers));
  Attention attention;
  ULLAGE_TRY(attention.num_heads, text.required("decoder_attention_heads", kMaxHeads));
  attention.num_kv_heads = attention.num_heads;
  ULLAGE_TRY(attention.head_dim, read_head_dim(text, 0, shape.hidden_size, attention.num_heads));
  attention.has_qkv_bias = attention.has_output_bias = true;
  DenseFfn ffn{0, true, false};
  ULLAGE_TRY(ffn.intermediate_size, text.required("decoder_ffn_dim", kMaxIntermediateSize));
  shape.layers.assign(static_cast<size_t>(num_layers), decoder_layer(attention, ffn, shape.max_encoder_len));

  const int64_t hidden = shape.hidden_size;
  EncoderLayer encoder{0, hidden, hidden, 0, false, true, true, true};
  ULLAGE_TRY(encoder.num_layers, text.required("encoder_layers", kMaxLayers));
  ULLAGE_TRY(encoder.intermediate, text.required("encoder_ffn_dim", kMaxIntermediateSize));
  OtherWeights weights(shape, "", WeightRole::kOther);
  for (const char* side : {"decoder.", "encoder."}) {
    weights.set_prefix(side);
    if (rules->has_positions) weights.table("embed_positions", shape.max_position_embeddings + 2, hidden);
    if (rules->has_embedding_norm) add_norm(weights, "layernorm_embedding", hidden);
  }
  add_encoder(weights, encoder);
  if (rules->has_final_norm) add_norm(weights, "layer_norm", hidden);
  return {};
}

Result<void> read_t5(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  shape.architecture = "t5";
  ULLAGE_TRY_VOID(read_common_extras(source, {.is_tied = true}, shape));
  ULLAGE_TRY(shape.vocab_size, text.required("vocab_size", kMaxVocabSize));
  ULLAGE_TRY(shape.hidden_size, text.required("d_model", kMaxHiddenSize));
  ULLAGE_TRY(shape.max_position_embeddings, text.size("n_positions", 512, kMaxPositions));
  shape.max_encoder_len = shape.max_position_embeddings;
  ULLAGE_TRY(const int64_t num_encoder, text.required("num_layers", kMaxLayers));
  ULLAGE_TRY(const int64_t num_layers, text.size("num_decoder_layers", num_encoder, kMaxLayers));
  Attention attention;
  ULLAGE_TRY(attention.num_heads, text.required("num_heads", kMaxHeads));
  attention.num_kv_heads = attention.num_heads;
  ULLAGE_TRY(attention.head_dim, text.size("d_kv", 64, kMaxHeadDim));
  DenseFfn ffn;
  ULLAGE_TRY(ffn.intermediate_size, text.required("d_ff", kMaxIntermediateSize));
  const bool is_t5 = source.model_type == "t5";
  ULLAGE_TRY(const std::string projection, text.text("feed_forward_proj", is_t5 ? "relu" : "gated-gelu"));
  ffn.is_gated = projection.starts_with("gated-");
  shape.layers.assign(static_cast<size_t>(num_layers), decoder_layer(attention, ffn, shape.max_encoder_len));

  ULLAGE_TRY(const int64_t buckets, text.size("relative_attention_num_buckets", 32, 4096));
  const bool is_umt5 = source.model_type == "umt5";  // a table in every layer, not in the first alone
  OtherWeights weights(shape, "decoder.", WeightRole::kOther);
  weights.set_count(is_umt5 ? num_layers : 1);
  weights.table("relative_attention_bias", buckets, attention.num_heads);
  weights.set_prefix("encoder.");
  weights.set_count(is_umt5 ? num_encoder : 1);
  weights.table("relative_attention_bias", buckets, attention.num_heads);
  add_encoder(weights, {num_encoder, shape.hidden_size, attention.num_heads * attention.head_dim, ffn.intermediate_size,
                        ffn.is_gated, false, false, false});
  weights.vector("final_layer_norm", shape.hidden_size);
  return {};
}

}  // namespace ullage::model
