#include "ullage/model/quantization.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/quote.h"
#include "ullage/model/dtype.h"
#include "ullage/model/model_shape.h"
#include "ullage/model/module_names.h"
#include "ullage/model/weight_formats.h"

namespace ullage::model {
namespace {

using Compute = WeightFormat::Compute;

bool means_any(const std::vector<ModulePattern>& patterns, const CandidateNames& names, int64_t layer) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const ModulePattern& pattern) {
    if (pattern.layer >= 0 && pattern.layer != layer && !names.is_draft) return false;
    const auto& candidates = pattern.kind == ModulePattern::Kind::kRegex ? names.spelled_out : names.bare;
    return std::any_of(candidates.begin(), candidates.end(),
                       [&](const std::string& name) { return matches(pattern, name); });
  });
}

bool is_experts(std::string_view name, WeightRole role) {
  return role == WeightRole::kExperts || (role == WeightRole::kDraft && name.find("experts.") != name.npos &&
                                          name.find("shared_experts.") == name.npos);
}

// Projections of layers, which every method quantises unless told otherwise.
bool is_linear(std::string_view name, WeightRole role) {
  // The parts of a layer that stay plain whatever the method: their names end alike in every family.
  for (const std::string_view end :
       {"bias", "norm", "conv1d", "A_log", ".D", "sinks", ".gate", "router", "scale", "shared_expert_gate"}) {
    if (name.ends_with(end)) return false;
  }
  return role == WeightRole::kAttention || role == WeightRole::kFfn || role == WeightRole::kExperts ||
         role == WeightRole::kSharedExperts || role == WeightRole::kDraft;
}

// llama.cpp's "use more bits": the first and last eighth of the layers, and every third between (src/llama-quant.cpp).
bool has_more_bits(int64_t layer, int64_t num_layers) {
  return layer < num_layers / 8 || layer >= 7 * num_layers / 8 || (layer - num_layers / 8) % 3 == 2;
}

// The type of one matrix under a recipe of more than one type, as llama.cpp chooses it; nothing = the main type.
std::optional<DType> mixed_gguf_type(std::string_view mix, std::string_view name, WeightRole role, int64_t layer,
                                     int64_t num_layers) {
  const bool is_medium = mix.ends_with("_m");
  if (role == WeightRole::kOutputHead) return DType::kQ6_K;
  const bool is_value = name.ends_with("v_proj");
  const bool is_down = name.ends_with("down_proj");
  if (!is_value && !is_down) return std::nullopt;
  if (mix.starts_with("q4_k")) {
    if (is_medium) return has_more_bits(layer, num_layers) ? std::optional(DType::kQ6_K) : std::nullopt;
    if (is_value ? layer < 4 : layer < num_layers / 8) return DType::kQ5_K;
    return std::nullopt;
  }
  if (mix == "q5_k_m" && has_more_bits(layer, num_layers)) return DType::kQ6_K;
  return std::nullopt;
}

struct Named {
  const char* name;
  const char* method;
  WeightFormat format;
};

const std::vector<Named>& named_formats() {
  static const std::vector<Named> kNamed = {
      {"fp8", "fp8", fp8_per_tensor(false)},
      {"fp8-block", "fp8", fp8_block(128, 128, 32)},
      {"fp8-channel", "compressed-tensors", per_channel(Compute::kFP8)},
      {"int8", "compressed-tensors", per_channel(Compute::kINT8)},
      {"int4", "compressed-tensors", grouped_int(4, 128, false)},
      {"awq", "awq", grouped_int(4, 128, true)},
      {"gptq", "gptq", grouped_int(4, 128, false)},
      {"nvfp4", "modelopt", nvfp4(true)},
      {"mxfp4", "mxfp4", mxfp(4)},
      {"mxfp8", "modelopt", mxfp(8)},
      {"nf4", "bitsandbytes", bitsandbytes_4bit(true)},
      {"bnb-int8", "bitsandbytes", per_channel(Compute::kINT8)},
  };
  return kNamed;
}

struct GgufRecipe {
  const char* name;
  DType main;
  bool is_mix;
};
constexpr GgufRecipe kGgufRecipes[] = {
    {"q8_0", DType::kQ8_0, false},  {"q6_k", DType::kQ6_K, false},  {"q5_k_m", DType::kQ5_K, true},
    {"q5_k_s", DType::kQ5_K, true}, {"q4_k_m", DType::kQ4_K, true}, {"q4_k_s", DType::kQ4_K, true},
    {"q4_0", DType::kQ4_0, true},   {"q4_1", DType::kQ4_1, true},   {"q5_0", DType::kQ5_0, true},
    {"q5_1", DType::kQ5_1, true},
};

// Other names that people and vLLM have for the same.
std::string_view canonical_name(std::string_view name) {
  static constexpr std::array<std::array<std::string_view, 2>, 11> kAliases = {{{"fp8_e4m3", "fp8"},
                                                                                {"fp8-dynamic", "fp8-channel"},
                                                                                {"ptpc_fp8", "fp8-channel"},
                                                                                {"w8a8", "int8"},
                                                                                {"w4a16", "int4"},
                                                                                {"fp4", "nvfp4"},
                                                                                {"bitsandbytes", "nf4"},
                                                                                {"bnb-4bit", "nf4"},
                                                                                {"awq_marlin", "awq"},
                                                                                {"gptq_marlin", "gptq"},
                                                                                {"fp8_block", "fp8-block"}}};
  for (const auto& [alias, known] : kAliases) {
    if (name == alias) return known;
  }
  return name;
}

}  // namespace

const std::vector<std::string>& quantization_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    names.reserve(named_formats().size() + std::size(kGgufRecipes));
    for (const Named& each : named_formats()) names.emplace_back(each.name);
    for (const GgufRecipe& each : kGgufRecipes) names.emplace_back(each.name);
    return names;
  }();
  return kNames;
}

Result<Quantization> quantize_as(std::string_view given, std::string_view where) {
  const std::string lower = to_lower(given);
  const std::string_view name = canonical_name(lower);
  Quantization quantization;
  for (const Named& each : named_formats()) {
    if (name != each.name) continue;
    quantization.method = each.method;
    quantization.format = each.format;
    return quantization;
  }
  for (const GgufRecipe& each : kGgufRecipes) {
    if (name != each.name) continue;
    quantization.method = "gguf";
    quantization.format = plain_format(each.main);
    quantization.has_embeddings = true;
    if (each.is_mix) quantization.gguf_mix = each.name;
    return quantization;
  }
  std::string known;
  for (const std::string& each : quantization_names()) known += (known.empty() ? "" : ", ") + each;
  return Error{ErrorCode::kUnsupported,
               fmt::format("the weight format {} is not known; expected one of {}", quote(given), known),
               std::string(where)};
}

WeightFormat format_of(const ModelShape& shape, std::string_view module, WeightRole role) {
  const WeightFormat plain = plain_format(shape.weight_dtype);
  const Quantization& quantization = shape.quantization;
  if (quantization.method.empty()) return plain;
  const auto [layer, name] = split_layer(module);
  const bool is_embedding = role == WeightRole::kEmbedding;
  const bool is_head = role == WeightRole::kOutputHead;
  const bool is_candidate = is_linear(name, role) || is_embedding || is_head;
  if (!is_candidate) return plain;
  if (quantization.is_experts_only && !is_experts(name, role)) return plain;
  if (!quantization.ignored.empty() || !quantization.groups.empty()) {
    const CandidateNames names = candidate_names(shape, name, role, layer);
    if (means_any(quantization.ignored, names, layer)) return plain;
    for (const QuantizedModules& group : quantization.groups) {
      if (means_any(group.targets, names, layer)) return group.is_plain ? plain : group.format;
    }
  }
  if (quantization.is_listed_only) return plain;
  if (is_embedding && !quantization.has_embeddings) return plain;
  if (is_head && !quantization.has_embeddings && !quantization.has_output_head) return plain;
  if (is_experts(name, role) && quantization.has_expert_format) return quantization.expert_format;
  if (!quantization.gguf_mix.empty()) {
    const auto num_layers = static_cast<int64_t>(shape.layers.size());
    // A tied embedding is the output head too.
    const WeightRole as = is_embedding && shape.has_tied_embeddings ? WeightRole::kOutputHead : role;
    if (const auto type = mixed_gguf_type(quantization.gguf_mix, name, as, layer, num_layers)) {
      return plain_format(*type);
    }
  }
  return quantization.format;
}

}  // namespace ullage::model
