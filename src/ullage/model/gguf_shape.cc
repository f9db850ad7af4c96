#include "ullage/model/gguf_shape.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "ullage/base/quote.h"
#include "ullage/model/families.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

// Reads "<architecture>.<key>".
class Keys {
 public:
  Keys(const GgufFile& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  std::string name(const char* key) const { return prefix_ + key; }
  std::string where(const char* key) const { return file_.where(name(key)); }
  bool has(const char* key) const { return file_.find(name(key)) != nullptr; }

  Result<double> number(const char* key, double fallback) const { return file_.get_double(name(key), fallback); }
  Result<std::string_view> text(const char* key, std::string_view fallback) const {
    return file_.get_string(name(key), fallback);
  }

  // Within [1, most]. fallback 0: the key must be there. A list with one value per layer is read when all are equal.
  Result<int64_t> size(const char* key, int64_t fallback, int64_t most) const {
    const GgufEntry* entry = file_.find(name(key));
    if (entry == nullptr && fallback == 0) {
      return Error{ErrorCode::kCorrupt, "is missing; the model cannot be read without it", where(key)};
    }
    if (entry != nullptr && entry->type == GgufType::kArray) {
      ULLAGE_TRY(const std::vector<int64_t> values, file_.get_ints(name(key)));
      const bool uniform =
          !values.empty() && std::count(values.begin(), values.end(), values[0]) == static_cast<int64_t>(values.size());
      if (!uniform) {
        return Error{ErrorCode::kUnsupported, "differs between layers, which is not supported", where(key)};
      }
      return check_size(values[0], most, where(key));
    }
    ULLAGE_TRY(const int64_t value, file_.get_int(name(key), fallback));
    return check_size(value, most, where(key));
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

Result<double> get_positive(const Keys& keys, const char* key, double fallback) {
  ULLAGE_TRY(const double value, keys.number(key, fallback));
  return check_positive(value, keys.where(key));
}

// Values that are read only at their neutral setting.
Result<void> require_one(const Keys& keys, const char* key) {
  ULLAGE_TRY(const double value, keys.number(key, 1.0));
  if (value == 1.0) return {};
  return Error{ErrorCode::kUnsupported, fmt::format("is {}; only 1 is supported", value), keys.where(key)};
}

Result<void> read_yarn(const Keys& keys, Rope& rope, int64_t max_positions) {
  rope.scaling = RopeScaling::kYarn;
  for (const char* key :
       {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor"}) {
    ULLAGE_TRY_VOID(require_one(keys, key));
  }
  ULLAGE_TRY(rope.beta_fast, get_positive(keys, "rope.scaling.yarn_beta_fast", rope.beta_fast));
  ULLAGE_TRY(rope.beta_slow, get_positive(keys, "rope.scaling.yarn_beta_slow", rope.beta_slow));
  ULLAGE_TRY(rope.original_max_positions,
             keys.size("rope.scaling.original_context_length", max_positions, kMaxPositions));
  return {};
}

Result<Rope> read_rope(const Keys& keys, const Family& family, int64_t head_dim, int64_t max_positions) {
  Rope rope;
  // Llama's converter interleaves the rows of Q and K so that pairs are adjacent; Qwen's leaves them.
  rope.pairing = std::string_view(family.architecture) == "llama" ? RopePairing::kAdjacent : RopePairing::kHalves;
  ULLAGE_TRY(rope.theta, get_positive(keys, "rope.freq_base", rope.theta));
  ULLAGE_TRY(rope.rotary_dim, keys.size("rope.dimension_count", head_dim, kMaxHeadDim));
  ULLAGE_TRY(const double old_factor, get_positive(keys, "rope.scale_linear", 1.0));  // before rope.scaling.*
  ULLAGE_TRY(rope.factor, get_positive(keys, "rope.scaling.factor", old_factor));
  ULLAGE_TRY(const std::string_view type, keys.text("rope.scaling.type", rope.factor == 1.0 ? "none" : "linear"));
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    ULLAGE_TRY_VOID(read_yarn(keys, rope, max_positions));
  } else if (type == "none") {
    rope.factor = 1.0;
  } else {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("the RoPE scaling {} is not supported; supported are none, linear and yarn (llama3's comes as "
                    "the tensor rope_freqs.weight)",
                    quote(type)),
        keys.where("rope.scaling.type")};
  }
  return rope;
}

Result<Attention> read_attention(const GgufFile& file, const Keys& keys, const Family& family,
                                 const ModelShape& shape) {
  Attention attention;
  ULLAGE_TRY(attention.num_heads, keys.size("attention.head_count", 0, kMaxHeads));
  ULLAGE_TRY(attention.num_kv_heads, keys.size("attention.head_count_kv", attention.num_heads, kMaxHeads));
  if (!keys.has("attention.key_length") && shape.hidden_size % attention.num_heads != 0) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("embedding_length {} is not a multiple of head_count {}, and there is no "
                             "attention.key_length",
                             shape.hidden_size, attention.num_heads),
                 keys.where("attention.head_count")};
  }
  ULLAGE_TRY(attention.head_dim, keys.size("attention.key_length",
                                           std::max<int64_t>(1, shape.hidden_size / attention.num_heads), kMaxHeadDim));
  ULLAGE_TRY(const int64_t value_dim, keys.size("attention.value_length", attention.head_dim, kMaxHeadDim));
  if (value_dim != attention.head_dim) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("is {}, but keys have {}; different lengths are not supported", value_dim, attention.head_dim),
        keys.where("attention.value_length")};
  }
  ULLAGE_TRY(attention.rope, read_rope(keys, family, attention.head_dim, shape.max_position_embeddings));
  attention.has_qkv_bias = family.always_qkv_bias || file.find_tensor("blk.0.attn_q.bias") != nullptr;
  attention.has_output_bias = file.find_tensor("blk.0.attn_output.bias") != nullptr;
  attention.has_qk_norm = family.has_qk_norm;
  if (std::string_view(family.architecture) == "llama" && keys.has("attention.sliding_window")) {
    ULLAGE_TRY(attention.sliding_window, keys.size("attention.sliding_window", 0, kMaxPositions));
  }
  ULLAGE_TRY_VOID(check_attention(attention, keys.where("attention.head_count")));
  return attention;
}

// The embedding has a row for every token; the list of tokens may be shorter, never longer.
Result<int64_t> read_vocab_size(const GgufFile& file, const Keys& keys) {
  const GgufEntry* tokens = file.find("tokenizer.ggml.tokens");
  const auto num_tokens =
      static_cast<int64_t>(tokens != nullptr ? std::min<uint64_t>(tokens->num_elements, INT64_MAX) : 0);
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  const int64_t rows = embedding != nullptr && embedding->dims.size() == 2 ? embedding->dims[1] : num_tokens;
  ULLAGE_TRY(const int64_t vocab_size, keys.size("vocab_size", rows, kMaxVocabSize));
  const int64_t size = embedding != nullptr ? rows : vocab_size;
  if (num_tokens > size) {
    return Error{ErrorCode::kCorrupt, fmt::format("has {} tokens, but the model only {}", num_tokens, size),
                 file.where("tokenizer.ggml.tokens")};
  }
  return check_size(size, kMaxVocabSize, file.where("token_embd.weight"));
}

// By bytes, among the matrices.
DType most_common_dtype(const GgufFile& file) {
  uint64_t bytes[kNumDTypes] = {};
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.dims.size() == 2) bytes[static_cast<int>(tensor.dtype)] += tensor.data.size();
  }
  return static_cast<DType>(std::max_element(std::begin(bytes), std::end(bytes)) - std::begin(bytes));
}

Result<const Family*> read_family(const GgufFile& file) {
  ULLAGE_TRY(const std::string_view architecture, file.get_string("general.architecture", ""));
  for (const Family& family : families()) {
    // Mistral's GGUFs say "llama".
    if (architecture == family.architecture && architecture == family.model_type) return &family;
  }
  if (architecture.empty()) {
    return Error{ErrorCode::kCorrupt, "is missing: the file does not say what model it holds",
                 file.where("general.architecture")};
  }
  return unsupported_architecture(architecture, file.where("general.architecture"));
}

}  // namespace

Result<ModelShape> shape_from_gguf(const GgufFile& file) {
  ULLAGE_TRY(const Family* family, read_family(file));
  const Keys keys(file, family->architecture);
  ULLAGE_TRY(const int64_t num_experts, file.get_int(keys.name("expert_count"), 0));
  if (num_experts > 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the model has {} experts per layer; mixtures of experts are not supported", num_experts),
                 keys.where("expert_count")};
  }

  ModelShape shape;
  shape.architecture = family->architecture;
  ULLAGE_TRY(const std::string_view name, file.get_string("general.name", ""));
  shape.name = name;
  ULLAGE_TRY(shape.vocab_size, read_vocab_size(file, keys));
  ULLAGE_TRY(shape.hidden_size, keys.size("embedding_length", 0, kMaxHiddenSize));
  ULLAGE_TRY(shape.max_position_embeddings, keys.size("context_length", 0, kMaxPositions));
  ULLAGE_TRY(shape.norm_eps, get_positive(keys, "attention.layer_norm_rms_epsilon", 1e-5));
  shape.has_tied_embeddings = file.find_tensor("output.weight") == nullptr;
  shape.weight_dtype = most_common_dtype(file);

  ULLAGE_TRY(const int64_t num_layers, keys.size("block_count", 0, kMaxLayers));
  ULLAGE_TRY(const Attention attention, read_attention(file, keys, *family, shape));
  DenseFfn ffn;
  ULLAGE_TRY(ffn.intermediate_size, keys.size("feed_forward_length", 0, kMaxIntermediateSize));
  ffn.has_bias = file.find_tensor("blk.0.ffn_up.bias") != nullptr;
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{attention, ffn});
  return shape;
}

}  // namespace ullage::model
