// Decoders before Llama: LayerNorm, feed-forwards of two matrices, and keys of their own in config.json.
#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ullage/model/config_decoder.h"
#include "ullage/model/config_readers.h"
#include "ullage/model/config_weights.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

enum class Positions : uint8_t { kNone, kRotary, kLearned, kLearnedPlus2 };  // OPT's table begins two rows early

struct ClassicRules {
  const char* model_type;
  const char* architecture;
  ClassDefaults defaults;
  FlagRule qkv_bias;
  FlagRule output_bias;
  FlagRule ffn_bias;
  FlagRule head_bias;
  FlagRule multi_query;  // one head of keys and values
  bool has_shared_norm;
  Positions positions;
  bool has_embedding_norm = false;
};
constexpr FlagRule kYes{nullptr, true};
constexpr FlagRule kNo{nullptr, false};
constexpr ClassicRules kRules[] = {
    {"gpt2", "gpt2", {50257, 768, 0, 12, 12, 0, 0, 1024, true}, kYes, kYes, kYes, kNo, kNo, false, Positions::kLearned},
    {"gpt_bigcode",
     "starcoder",
     {50257, 768, 0, 12, 12, 0, 0, 1024, true},
     kYes,
     kYes,
     kYes,
     kNo,
     {"multi_query", true},
     false,
     Positions::kLearned},
    {"gptj", "gptj", {50400, 4096, 0, 28, 16, 0, 0, 2048}, kNo, kNo, kYes, kYes, kNo, true, Positions::kRotary},
    {"codegen", "codegen", {50400, 4096, 0, 28, 16, 0, 0, 2048}, kNo, kNo, kYes, kYes, kNo, true, Positions::kRotary},
    {"gpt_neo",
     "gptneo",
     {50257, 2048, 0, 24, 16, 0, 0, 2048, true},
     kNo,
     kYes,
     kYes,
     kNo,
     kNo,
     false,
     Positions::kLearned},
    {"gpt_neox",
     "gptneox",
     {50432, 6144, 24576, 44, 64, 0, 0, 2048},
     {"attention_bias", true},
     {"attention_bias", true},
     kYes,
     kNo,
     kNo,
     false,
     Positions::kRotary},
    {"opt",
     "opt",
     {50272, 768, 3072, 12, 12, 0, 0, 2048, true},
     {"enable_bias", true},
     {"enable_bias", true},
     {"enable_bias", true},
     kNo,
     kNo,
     false,
     Positions::kLearnedPlus2},
    {"bloom",
     "bloom",
     {250880, 64, 0, 2, 8, 0, 0, 2048, true},
     kYes,
     kYes,
     kYes,
     kNo,
     kNo,
     false,
     Positions::kNone,
     true},
};

Result<bool> read_flag(const ConfigFields& text, const FlagRule& rule) {
  if (rule.key == nullptr) return rule.value;
  return text.flag(rule.key, rule.value);
}

// Names, dtype and epsilon as everywhere; sizes under their own keys. Returns the number of layers.
Result<int64_t> read_sizes(const ConfigSource& source, const ClassDefaults& defaults, ModelShape& shape) {
  const ConfigFields& text = source.text;
  ULLAGE_TRY_VOID(read_common_extras(source, defaults, shape));
  ULLAGE_TRY(shape.vocab_size, text.required("vocab_size", kMaxVocabSize, defaults.vocab_size));
  const char* hidden = text.first_of({"hidden_size", "n_embd", "n_embed", "d_model"});
  ULLAGE_TRY(shape.hidden_size, text.required(hidden, kMaxHiddenSize, defaults.hidden_size));
  const char* positions = text.first_of({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"});
  ULLAGE_TRY(shape.max_position_embeddings, text.size(positions, defaults.max_positions, kMaxPositions));
  return text.required(text.first_of({"num_hidden_layers", "n_layer", "num_layers", "n_layers"}), kMaxLayers,
                       defaults.num_layers);
}

Result<Attention> read_heads(const ConfigSource& source, const ClassDefaults& defaults, const ModelShape& shape) {
  const ConfigFields& text = source.text;
  Attention attention;
  const char* heads = text.first_of({"num_attention_heads", "n_head", "num_heads", "n_heads"});
  ULLAGE_TRY(attention.num_heads, text.required(heads, kMaxHeads, defaults.num_heads));
  attention.num_kv_heads = attention.num_heads;
  ULLAGE_TRY(attention.head_dim, read_head_dim(text, defaults.head_dim, shape.hidden_size, attention.num_heads));
  return attention;
}

Result<int64_t> read_inner(const ConfigFields& text, int64_t class_default, int64_t hidden) {
  const char* key = text.first_of({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"});
  if (text.has(key)) return text.size(key, 0, kMaxIntermediateSize);
  if (class_default > 0) return text.required(key, kMaxIntermediateSize, class_default);
  return check_size(4 * hidden, kMaxIntermediateSize, text.at(key));
}

}  // namespace

Result<void> read_classic(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  const ClassicRules* found = nullptr;
  for (const ClassicRules& row : kRules) {
    if (source.model_type == row.model_type) found = &row;
  }
  if (found == nullptr) return text.unsupported("is not a classic decoder", "model_type");
  const ClassicRules& rules = *found;
  shape.architecture = rules.architecture;
  shape.norm.has_bias = true;
  shape.norm.is_shared = rules.has_shared_norm;
  ULLAGE_TRY(const int64_t num_layers, read_sizes(source, rules.defaults, shape));
  ULLAGE_TRY(Attention attention, read_heads(source, rules.defaults, shape));
  ULLAGE_TRY(const bool is_mqa, read_flag(text, rules.multi_query));
  if (is_mqa) attention.num_kv_heads = 1;
  attention.rope.rotary_dim = rules.positions == Positions::kRotary ? attention.head_dim / 2 * 2 : 0;
  ULLAGE_TRY(attention.has_qkv_bias, read_flag(text, rules.qkv_bias));
  ULLAGE_TRY(attention.has_output_bias, read_flag(text, rules.output_bias));
  ULLAGE_TRY(shape.has_output_head_bias, read_flag(text, rules.head_bias));
  DenseFfn ffn;
  ffn.is_gated = false;
  ULLAGE_TRY(ffn.intermediate_size, read_inner(text, rules.defaults.intermediate_size, shape.hidden_size));
  ULLAGE_TRY(ffn.has_bias, read_flag(text, rules.ffn_bias));
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{attention, ffn});

  const std::string_view type = rules.model_type;
  if (type == "opt") {
    ULLAGE_TRY(const int64_t width, text.size("word_embed_proj_dim", shape.hidden_size, kMaxHiddenSize));
    if (width != shape.hidden_size) {
      return text.unsupported("embeddings of another width than the layers' are not supported", "word_embed_proj_dim");
    }
  }
  if (type == "gpt_neo") {
    // Every second layer attends to a window.
    ULLAGE_TRY(const int64_t window, text.size("window_size", 256, kMaxPositions));
    for (size_t i = 1; i < shape.layers.size(); i += 2) {
      std::get<Attention>(shape.layers[i].mixer).sliding_window = window;
    }
  }
  OtherWeights weights(shape, "", WeightRole::kOther);
  if (rules.positions == Positions::kLearned || rules.positions == Positions::kLearnedPlus2) {
    const int64_t extra = rules.positions == Positions::kLearnedPlus2 ? 2 : 0;
    weights.table("embed_positions", shape.max_position_embeddings + extra, shape.hidden_size);
  }
  if (rules.has_embedding_norm) {
    weights.vector("word_embeddings_layernorm", shape.hidden_size);
    weights.vector("word_embeddings_layernorm.bias", shape.hidden_size);
  }
  return {};
}

// Falcon: one head of keys and values (7B), groups (40B, 180B), or all; side by side with the feed-forward.
Result<void> read_falcon(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  constexpr ClassDefaults defaults{65024, 4544, 0, 32, 71, 0, 0, 2048, true};
  shape.architecture = "falcon";
  shape.norm.has_bias = true;
  ULLAGE_TRY(const int64_t num_layers, read_sizes(source, defaults, shape));
  ULLAGE_TRY(Attention attention, read_heads(source, defaults, shape));
  ULLAGE_TRY(const bool is_new, text.flag("new_decoder_architecture", false));
  ULLAGE_TRY(const bool is_mqa, text.flag("multi_query", true));
  ULLAGE_TRY(const bool is_parallel, text.flag("parallel_attn", true));
  ULLAGE_TRY(const bool has_alibi, text.flag("alibi", false));
  ULLAGE_TRY(const int64_t num_norms, text.size("num_ln_in_parallel_attn", is_new ? 2 : 1, 2));
  ULLAGE_TRY(attention.has_qkv_bias, text.flag("bias", false));
  attention.has_output_bias = attention.has_qkv_bias;
  const char* kv_key = text.first_of({"num_kv_heads", "n_head_kv"});
  if (is_new) {
    ULLAGE_TRY(attention.num_kv_heads, text.size(kv_key, attention.num_heads, kMaxHeads));
  } else if (is_mqa) {
    attention.num_kv_heads = 1;
  }
  attention.rope.rotary_dim = has_alibi ? 0 : attention.head_dim / 2 * 2;
  ULLAGE_TRY_VOID(check_attention(attention, text.where()));
  shape.norm.is_shared = is_parallel && num_norms == 1;
  DenseFfn ffn{0, attention.has_qkv_bias, false};
  ULLAGE_TRY(ffn.intermediate_size, read_inner(text, 0, shape.hidden_size));
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{attention, ffn});
  return {};
}

// MPT: no biases, ALiBi.
Result<void> read_mpt(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  constexpr ClassDefaults defaults{50368, 2048, 0, 24, 16, 0, 0, 2048, true};
  shape.architecture = "mpt";
  ULLAGE_TRY(const int64_t num_layers, read_sizes(source, defaults, shape));
  ULLAGE_TRY(Attention attention, read_heads(source, defaults, shape));
  bool has_alibi = true;
  if (text.has("attn_config")) {
    ULLAGE_TRY(const ConfigFields attn, text.section("attn_config", true));
    ULLAGE_TRY(has_alibi, attn.flag("alibi", false));
    ULLAGE_TRY(attention.num_kv_heads, attn.size("kv_n_heads", attention.num_heads, kMaxHeads));
    ULLAGE_TRY_VOID(check_attention(attention, text.where()));
  }
  ULLAGE_TRY(const bool no_bias, text.flag("no_bias", false));
  attention.has_qkv_bias = attention.has_output_bias = shape.norm.has_bias = !no_bias;
  ULLAGE_TRY(const int64_t ratio, text.size("expansion_ratio", 4, 64));
  DenseFfn ffn{0, !no_bias, false};
  ULLAGE_TRY(ffn.intermediate_size,
             check_size(ratio * shape.hidden_size, kMaxIntermediateSize, text.at("expansion_ratio")));
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{attention, ffn});
  ULLAGE_TRY(const bool has_positions, text.flag("learned_pos_emb", true));
  if (has_positions && !has_alibi) {
    OtherWeights(shape, "", WeightRole::kOther).table("wpe", shape.max_position_embeddings, shape.hidden_size);
  }
  return {};
}

// ChatGLM, GLM-4-9B of 2024: groups of heads under names of their own.
Result<void> read_chatglm(const ConfigSource& source, ModelShape& shape) {
  const ConfigFields& text = source.text;
  constexpr ClassDefaults defaults{65024, 4096, 13696, 28, 32, 2, 128, 2048};
  shape.architecture = "chatglm";
  ULLAGE_TRY_VOID(read_common_extras(source, defaults, shape));
  const char* vocab = text.first_of({"padded_vocab_size", "vocab_size"});
  ULLAGE_TRY(shape.vocab_size, text.required(vocab, kMaxVocabSize, defaults.vocab_size));
  ULLAGE_TRY(shape.hidden_size, text.required("hidden_size", kMaxHiddenSize, defaults.hidden_size));
  ULLAGE_TRY(shape.max_position_embeddings, text.size("seq_length", defaults.max_positions, kMaxPositions));
  ULLAGE_TRY(const int64_t num_layers,
             text.required(text.first_of({"num_layers", "num_hidden_layers"}), kMaxLayers, defaults.num_layers));
  Attention attention;
  ULLAGE_TRY(attention.num_heads, text.required("num_attention_heads", kMaxHeads, defaults.num_heads));
  ULLAGE_TRY(const bool has_groups, text.flag("multi_query_attention", false));
  attention.num_kv_heads = attention.num_heads;
  if (has_groups) {
    ULLAGE_TRY(attention.num_kv_heads, text.size("multi_query_group_num", 1, kMaxHeads));
  }
  ULLAGE_TRY(attention.head_dim, text.size("kv_channels", 128, kMaxHeadDim));
  attention.rope.rotary_dim = attention.head_dim / 4 * 2;  // half of each head turns
  ULLAGE_TRY(const bool has_bias, text.flag("add_bias_linear", false));
  ULLAGE_TRY(attention.has_qkv_bias, text.flag("add_qkv_bias", false));
  attention.has_qkv_bias = attention.has_qkv_bias || has_bias;
  attention.has_output_bias = has_bias;
  ULLAGE_TRY_VOID(check_attention(attention, text.where()));
  DenseFfn ffn{0, has_bias, true};
  ULLAGE_TRY(ffn.intermediate_size, text.required("ffn_hidden_size", kMaxIntermediateSize, defaults.intermediate_size));
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{attention, ffn});
  return {};
}

}  // namespace ullage::model
