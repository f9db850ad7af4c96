#include "ullage/model/config.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/config_rope.h"
#include "ullage/model/families.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;

bool is_absent(const Json& object, const char* key) { return !object.contains(key); }
bool is_null_or_absent(const Json& object, const char* key) { return is_absent(object, key) || object[key].is_null(); }

std::string pointer(std::string_view where, const char* key) { return fmt::format("{}/{}", where, key); }

// A size that the file must state.
Result<int64_t> get_required(const Json& config, const char* key, int64_t most, std::string_view where) {
  if (is_null_or_absent(config, key)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("has no \"{}\"; is it the model's own config.json?", key),
                 std::string(where)};
  }
  ULLAGE_TRY(const int64_t value, get_int(config, key, 0, where));
  return check_size(value, most, pointer(where, key));
}

Result<int64_t> get_size(const Json& config, const char* key, int64_t fallback, int64_t most, std::string_view where) {
  ULLAGE_TRY(const int64_t value, get_int(config, key, fallback, where));
  return check_size(value, most, pointer(where, key));
}

Result<const Family*> read_family(const Json& config, std::string_view where) {
  if (!config.is_object()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", config.type_name()),
                 std::string(where)};
  }
  ULLAGE_TRY(const std::string model_type, get_string(config, "model_type", "", where));
  if (model_type.empty()) {
    return Error{ErrorCode::kInvalidArgument, "has no \"model_type\"; is it a model's config.json?",
                 std::string(where)};
  }
  const Family* family = find_family(model_type);
  if (family == nullptr) return unsupported_architecture(model_type, pointer(where, "model_type"));
  // "LlamaForSequenceClassification" and the like share the model_type, but do not generate text.
  if (!is_null_or_absent(config, "architectures") && config["architectures"].is_array()) {
    for (const Json& name : config["architectures"]) {
      if (!name.is_string()) continue;
      const std::string text = name.get<std::string>();
      if (!text.ends_with("ForCausalLM") && !text.ends_with("Model")) {
        return unsupported_architecture(text, pointer(where, "architectures"));
      }
    }
  }
  return family;
}

Result<void> check_activation(const Json& config, std::string_view where) {
  ULLAGE_TRY(const std::string name, get_string(config, "hidden_act", "silu", where));
  if (name == "silu") return {};
  return Error{ErrorCode::kUnsupported, fmt::format("the activation {} is not supported; silu is", quote(name)),
               pointer(where, "hidden_act")};
}

Result<int64_t> read_head_dim(const Json& config, const Family& family, int64_t hidden_size, int64_t num_heads,
                              std::string_view where) {
  // Only an absent key takes the class's own default; null means "work it out".
  const bool absent = is_absent(config, "head_dim");
  if (!absent && !config["head_dim"].is_null()) return get_size(config, "head_dim", 0, kMaxHeadDim, where);
  if (absent && family.head_dim > 0) return family.head_dim;
  if (hidden_size % num_heads != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("hidden_size {} is not a multiple of num_attention_heads {}, and there is no head_dim",
                             hidden_size, num_heads),
                 std::string(where)};
  }
  return check_size(hidden_size / num_heads, kMaxHeadDim, pointer(where, "head_dim"));
}

Result<int64_t> read_num_kv_heads(const Json& config, const Family& family, int64_t num_heads, std::string_view where) {
  const bool absent = is_absent(config, "num_key_value_heads");
  const int64_t fallback = absent && family.num_kv_heads > 0 ? family.num_kv_heads : num_heads;
  return get_size(config, "num_key_value_heads", fallback, kMaxHeads, where);
}

// The window of each layer; 0 = full attention.
Result<std::vector<int64_t>> read_windows(const Json& config, const Family& family, int64_t num_layers,
                                          std::string_view where) {
  std::vector<int64_t> windows(static_cast<size_t>(num_layers), 0);
  int64_t window = 0;
  if (family.sliding_by_default || family.has_use_sliding_window) {
    if (is_absent(config, "sliding_window"))
      window = 4096;
    else if (!config["sliding_window"].is_null()) {
      ULLAGE_TRY(window, get_size(config, "sliding_window", 0, kMaxPositions, where));
    }
  }
  if (family.has_use_sliding_window) {
    ULLAGE_TRY(const bool use, get_bool(config, "use_sliding_window", false, where));
    if (!use) window = 0;
  }
  if (family.sliding_by_default) {
    windows.assign(windows.size(), window);
    return windows;
  }
  if (!family.has_use_sliding_window) return windows;
  if (is_null_or_absent(config, "layer_types")) {
    ULLAGE_TRY(const int64_t first, get_int(config, "max_window_layers", 28, where));
    for (int64_t i = 0; i < num_layers; ++i) {
      if (i >= first) windows[static_cast<size_t>(i)] = window;
    }
    return windows;
  }
  const Json& types = config["layer_types"];
  const std::string at = pointer(where, "layer_types");
  if (!types.is_array() || types.size() != windows.size()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected one entry for each of the {} layers", num_layers),
                 at};
  }
  for (size_t i = 0; i < windows.size(); ++i) {
    const std::string type = types[i].is_string() ? types[i].get<std::string>() : std::string(types[i].type_name());
    if (type == "full_attention") continue;
    if (type != "sliding_attention") {
      return Error{
          ErrorCode::kUnsupported,
          fmt::format("the layer type {} is not supported; full_attention and sliding_attention are", quote(type)),
          fmt::format("{}/{}", at, i)};
    }
    if (window == 0) {
      return Error{ErrorCode::kInvalidArgument, "is sliding_attention, but the model has no sliding_window in use",
                   fmt::format("{}/{}", at, i)};
    }
    windows[i] = window;
  }
  return windows;
}

Result<Attention> read_attention(const Json& config, const Family& family, const ModelShape& shape,
                                 std::string_view where) {
  Attention attention;
  ULLAGE_TRY(attention.num_heads, get_required(config, "num_attention_heads", kMaxHeads, where));
  ULLAGE_TRY(attention.num_kv_heads, read_num_kv_heads(config, family, attention.num_heads, where));
  ULLAGE_TRY(attention.head_dim, read_head_dim(config, family, shape.hidden_size, attention.num_heads, where));
  ULLAGE_TRY(attention.rope, parse_config_rope(config, attention.head_dim, shape.max_position_embeddings, where));
  attention.has_qkv_bias = family.always_qkv_bias;
  if (family.reads_attention_bias) {
    ULLAGE_TRY(attention.has_qkv_bias, get_bool(config, "attention_bias", false, where));
    attention.has_output_bias = attention.has_qkv_bias;
  }
  attention.has_qk_norm = family.has_qk_norm;
  ULLAGE_TRY_VOID(check_attention(attention, where));
  return attention;
}

Result<DenseFfn> read_ffn(const Json& config, const Family& family, std::string_view where) {
  DenseFfn ffn;
  ULLAGE_TRY(ffn.intermediate_size, get_required(config, "intermediate_size", kMaxIntermediateSize, where));
  if (family.reads_mlp_bias) {
    ULLAGE_TRY(ffn.has_bias, get_bool(config, "mlp_bias", false, where));
  }
  return ffn;
}

// "torch_dtype" before transformers 4.56, "dtype" since.
Result<DType> read_dtype(const Json& config, std::string_view where) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    ULLAGE_TRY(const std::string name, get_string(config, key, "auto", where));
    if (name != "auto") return parse_dtype(name, pointer(where, key));
  }
  return DType::kBF16;
}

}  // namespace

Result<ModelShape> parse_config(std::string_view json, std::string_view where) {
  ULLAGE_TRY(const Json config, parse_json(json, where, {.max_bytes = kMaxConfigBytes}));
  ULLAGE_TRY(const Family* family, read_family(config, where));
  ULLAGE_TRY_VOID(check_activation(config, where));

  ModelShape shape;
  shape.architecture = family->architecture;
  ULLAGE_TRY(shape.name, get_string(config, "_name_or_path", "", where));
  ULLAGE_TRY(shape.vocab_size, get_required(config, "vocab_size", kMaxVocabSize, where));
  ULLAGE_TRY(shape.hidden_size, get_required(config, "hidden_size", kMaxHiddenSize, where));
  ULLAGE_TRY(shape.max_position_embeddings,
             get_size(config, "max_position_embeddings", family->max_position_embeddings, kMaxPositions, where));
  ULLAGE_TRY(const double eps, get_double(config, "rms_norm_eps", 1e-6, where));
  ULLAGE_TRY(shape.norm_eps, check_positive(eps, pointer(where, "rms_norm_eps")));
  ULLAGE_TRY(shape.has_tied_embeddings, get_bool(config, "tie_word_embeddings", false, where));
  ULLAGE_TRY(shape.weight_dtype, read_dtype(config, where));

  ULLAGE_TRY(const int64_t num_layers, get_required(config, "num_hidden_layers", kMaxLayers, where));
  ULLAGE_TRY(const Attention attention, read_attention(config, *family, shape, where));
  ULLAGE_TRY(const DenseFfn ffn, read_ffn(config, *family, where));
  ULLAGE_TRY(const std::vector<int64_t> windows, read_windows(config, *family, num_layers, where));
  shape.layers.assign(static_cast<size_t>(num_layers), LayerShape{attention, ffn});
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    std::get<Attention>(shape.layers[i].mixer).sliding_window = windows[i];
  }
  return shape;
}

}  // namespace ullage::model
