#include "ullage/model/config.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/config_reader.h"
#include "ullage/model/config_sections.h"
#include "ullage/model/families.h"
#include "ullage/model/python_json.h"
#include "ullage/model/servable.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;

// "LlamaForSequenceClassification" and the like share the model_type, but do not generate text.
Result<void> check_architectures(const ConfigFields& file) {
  if (!file.is_list("architectures")) return {};
  for (const Json& name : file.object()["architectures"]) {
    if (!name.is_string()) continue;
    const std::string text = name.get<std::string>();
    for (const char* ending : {"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
                               "ForMaskedLM", "ForRewardModel", "ForImageClassification", "ForMultipleChoice"}) {
      if (text.ends_with(ending)) return unsupported_architecture(text, file.at("architectures"));
    }
  }
  return {};
}

// "torch_dtype" before transformers 4.56, "dtype" since; a section without one has the file's.
Result<DType> read_dtype(const ConfigSource& source) {
  for (const ConfigFields* fields : {&source.text, &source.file}) {
    for (const char* key : {"torch_dtype", "dtype"}) {
      ULLAGE_TRY(const std::string name, fields->text(key, "auto"));
      if (name != "auto") return parse_dtype(name, fields->at(key));
    }
  }
  return DType::kBF16;
}

Result<bool> read_tied(const ConfigSource& source, bool class_default) {
  constexpr const char* kKey = "tie_word_embeddings";
  if (source.text.has(kKey)) return source.text.flag(kKey, class_default);
  return source.file.flag(kKey, class_default);
}

// cpu/ runs SiLU only.
Result<void> note_activation(const ConfigFields& text, ModelShape& shape) {
  const char* key = text.first_of({"hidden_act", "hidden_activation", "activation_function"});
  ULLAGE_TRY(const std::string name, text.text(key, "silu"));
  if (name != "silu") {
    note_unservable(shape,
                    text.unsupported(fmt::format("the activation {} is not supported; silu is", quote(name)), key));
  }
  return {};
}

}  // namespace

void note_unservable(ModelShape& shape, Error reason) {
  if (!shape.unservable) shape.unservable = std::move(reason);
}

Result<int64_t> read_head_dim(const ConfigFields& text, int64_t class_default, int64_t hidden_size, int64_t num_heads) {
  // Only an absent key takes the class's own default; null means "work it out".
  if (text.has("head_dim")) return text.size("head_dim", 0, kMaxHeadDim);
  if (!text.states("head_dim") && class_default > 0) return class_default;
  if (hidden_size % num_heads != 0) {
    return text.invalid(
        fmt::format("hidden_size {} is not a multiple of num_attention_heads {}, and there is no head_dim", hidden_size,
                    num_heads));
  }
  return check_size(hidden_size / num_heads, kMaxHeadDim, text.at("head_dim"));
}

Result<int64_t> read_num_kv_heads(const ConfigFields& text, int64_t class_default, int64_t num_heads) {
  const bool absent = !text.states("num_key_value_heads");
  const int64_t fallback = absent && class_default > 0 ? class_default : num_heads;
  return text.size("num_key_value_heads", fallback, kMaxHeads);
}

Result<void> read_common_extras(const ConfigSource& source, const ClassDefaults& defaults, ModelShape& shape) {
  const ConfigFields& text = source.text;
  ULLAGE_TRY(shape.name, source.file.text("_name_or_path", ""));
  const char* eps = text.first_of(
      {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", "layernorm_epsilon"});
  ULLAGE_TRY(shape.norm_eps, text.positive(eps, 1e-6));
  ULLAGE_TRY(shape.has_tied_embeddings, read_tied(source, defaults.is_tied));
  ULLAGE_TRY(shape.weight_dtype, read_dtype(source));
  return note_activation(text, shape);
}

Result<int64_t> read_common(const ConfigSource& source, const ClassDefaults& defaults, ModelShape& shape) {
  const ConfigFields& text = source.text;
  ULLAGE_TRY_VOID(read_common_extras(source, defaults, shape));
  ULLAGE_TRY(shape.vocab_size, text.required("vocab_size", kMaxVocabSize, defaults.vocab_size));
  ULLAGE_TRY(shape.hidden_size, text.required("hidden_size", kMaxHiddenSize, defaults.hidden_size));
  const char* positions = text.first_of({"max_position_embeddings", "max_seq_len", "model_max_length", "seq_length"});
  ULLAGE_TRY(shape.max_position_embeddings, text.size(positions, defaults.max_positions, kMaxPositions));
  return text.required(text.first_of({"num_hidden_layers", "num_layers"}), kMaxLayers, defaults.num_layers);
}

namespace {

// `serve_only`: of a model that cpu/ does not run its name is all that is read.
Result<ModelShape> parse(std::string_view json, std::string_view where, bool serve_only) {
  ULLAGE_TRY(const Json config, parse_json(without_python_numbers(json), where, {.max_bytes = kMaxConfigBytes}));
  if (!config.is_object()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", config.type_name()),
                 std::string(where)};
  }
  const ConfigFields file(config, std::string(where), false);
  ULLAGE_TRY(const ConfigSource source, find_text_section(file));
  ModelShape shape;
  // Run by cpu/ are the families of families.h alone, each from a file of its own.
  if (source.is_nested() || find_family(source.root_type) == nullptr) {
    shape.unservable = unsupported_architecture(source.root_type, file.at("model_type"));
    if (serve_only) return *shape.unservable;
  }
  const ConfigReader read = find_config_reader(source.model_type);
  if (read == nullptr) return unsupported_architecture(source.model_type, source.text.at("model_type"));
  ULLAGE_TRY_VOID(check_architectures(file));
  if (!serve_only) {  // first of all: formats depend on it
    ULLAGE_TRY(shape.quantization, read_quantization(config, where));
  }
  ULLAGE_TRY_VOID(read(source, shape));
  ULLAGE_TRY_VOID(read_towers(source, shape));
  ULLAGE_TRY_VOID(check_shape(shape, where));
  if (serve_only) ULLAGE_TRY_VOID(check_servable(shape, where));
  return shape;
}

}  // namespace

Result<ModelShape> parse_config(std::string_view json, std::string_view where) { return parse(json, where, false); }

Result<ModelShape> parse_servable_config(std::string_view json, std::string_view where) {
  return parse(json, where, true);
}

}  // namespace ullage::model
