// Readers of quantization_config and hf_quant_config.json, one function a method. What each method stores beside the
// numbers, and which modules it leaves alone, is as vLLM's vllm/model_executor/layers/quantization/ registers it.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/module_names.h"
#include "ullage/model/quantization.h"
#include "ullage/model/quantization_schemes.h"
#include "ullage/model/weight_formats.h"

namespace ullage::model {
namespace {

using Compute = WeightFormat::Compute;

constexpr int64_t kMaxHfQuantBytes = int64_t{64} << 20;

std::string at(std::string_view where, std::string_view key) { return fmt::format("{}/{}", where, key); }

// The first of `keys` that is there and not null.
const Json* find_any(const Json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (object.contains(key) && !object[key].is_null()) return &object[key];
  }
  return nullptr;
}

Result<std::vector<ModulePattern>> read_patterns(const Json& list, std::string_view where) {
  std::vector<ModulePattern> patterns;
  if (!list.is_array()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected a list of names, found {}", list.type_name()),
                 std::string(where)};
  }
  patterns.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}/{}", where, i);
    if (!list[i].is_string()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("expected a name, found {}", list[i].type_name()), place};
    }
    const auto& text = list[i].get_ref<const std::string&>();
    ULLAGE_TRY(ModulePattern pattern,
               parse_module_pattern(text.starts_with("re:") ? text : canonical_module(text), place));
    // Experts by the thousand are one pattern here.
    if (patterns.empty() || patterns.back() != pattern) patterns.push_back(std::move(pattern));
  }
  return patterns;
}

Result<void> read_ignored(const Json& config, std::string_view where, Quantization& quantization) {
  for (const char* key :
       {"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude", "llm_int8_skip_modules"}) {
    if (!config.contains(key) || config[key].is_null()) continue;
    ULLAGE_TRY(const auto patterns, read_patterns(config[key], at(where, key)));
    quantization.ignored.insert(quantization.ignored.end(), patterns.begin(), patterns.end());
  }
  return {};
}

Result<void> read_kv_cache(const Json& config, std::string_view where, Quantization& quantization) {
  const Json* scheme = find_any(config, {"kv_cache_scheme", "kv_cache_quant_algo"});
  if (scheme == nullptr) return {};
  if (scheme->is_string()) {
    const auto& name = scheme->get_ref<const std::string&>();
    if (name == "FP8" || name == "fp8") quantization.kv_cache_dtype = "fp8_e4m3";
    if (name == "NVFP4") quantization.kv_cache_dtype = "nvfp4";
    return {};
  }
  if (!scheme->is_object()) return {};
  ULLAGE_TRY(const int64_t bits, get_int(*scheme, "num_bits", 8, at(where, "kv_cache_scheme")));
  ULLAGE_TRY(const std::string type, get_string(*scheme, "type", "float", at(where, "kv_cache_scheme")));
  if (bits == 8 && type == "float") quantization.kv_cache_dtype = "fp8_e4m3";
  if (bits == 4 && type == "float") quantization.kv_cache_dtype = "nvfp4";
  return {};
}

Result<void> read_fp8(const Json& config, std::string_view where, Quantization& quantization) {
  ULLAGE_TRY(const std::string scheme, get_string(config, "activation_scheme", "dynamic", where));
  quantization.format = fp8_per_tensor(scheme == "static");
  if (const Json* block = find_any(config, {"weight_block_size"})) {
    ULLAGE_TRY(const auto sides, read_block_size(*block, at(where, "weight_block_size")));
    // ue8m0 says that the scales are powers of two; DeepSeek V3.2 still stores them as fp32.
    quantization.format = fp8_block(sides[0], sides[1], 32);
  }
  return {};
}

Result<void> read_awq(const Json& config, std::string_view where, Quantization& quantization) {
  ULLAGE_TRY(const IntScheme scheme, read_int_scheme(config, {"bits", "w_bit"}, {"group_size", "q_group_size"}, where));
  ULLAGE_TRY(const bool has_zeros, get_bool(config, "zero_point", true, where));
  quantization.format = grouped_int(scheme.bits, scheme.group_size, has_zeros);
  return {};
}

// Symmetric checkpoints store zero points that say nothing; engines drop them at load.
Result<void> read_gptq(const Json& config, std::string_view where, Quantization& quantization) {
  ULLAGE_TRY(const IntScheme scheme, read_int_scheme(config, {"bits", "wbits"}, {"group_size"}, where));
  ULLAGE_TRY(const bool is_symmetric, get_bool(config, "sym", true, where));
  ULLAGE_TRY(const bool is_ordered, get_bool(config, "desc_act", false, where));
  ULLAGE_TRY(quantization.has_output_head, get_bool(config, "lm_head", false, where));
  quantization.format = grouped_int(scheme.bits, scheme.group_size, !is_symmetric);
  if (is_ordered) quantization.format.column_bytes = 4;  // g_idx
  return {};
}

Result<void> read_auto_round(const Json& config, std::string_view where, Quantization& quantization) {
  ULLAGE_TRY_VOID(read_gptq(config, where, quantization));
  const Json* extra = find_any(config, {"extra_config"});
  if (extra == nullptr || !extra->is_object()) return {};
  for (const auto& [name, own] : extra->items()) {
    if (!own.is_object()) continue;
    const std::string place = at(at(where, "extra_config"), name);
    ULLAGE_TRY(const int64_t bits, get_int(own, "bits", 4, place));
    ULLAGE_TRY(ModulePattern pattern, parse_module_pattern(canonical_module(name), place));
    if (bits >= 16) {
      quantization.ignored.push_back(std::move(pattern));
      continue;
    }
    ULLAGE_TRY(const IntScheme scheme, read_int_scheme(own, {"bits"}, {"group_size"}, place));
    QuantizedModules modules;
    modules.targets.push_back(std::move(pattern));
    modules.format = grouped_int(scheme.bits, scheme.group_size, false);
    quantization.groups.push_back(std::move(modules));
  }
  return {};
}

// Each group says for which modules it is; "Linear" is all that no other group names.
Result<void> read_config_groups(const Json& config, std::string_view where, Quantization& quantization) {
  const Json* groups = find_any(config, {"config_groups"});
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    return Error{ErrorCode::kInvalidArgument, "has no config_groups, which say how its modules are stored",
                 std::string(where)};
  }
  bool has_rest = false;
  for (const auto& [name, group] : groups->items()) {
    const std::string place = at(at(where, "config_groups"), name);
    if (!group.is_object()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", group.type_name()), place};
    }
    ULLAGE_TRY(const WeightFormat format, read_weight_scheme(group, place));
    const Json* targets = find_any(group, {"targets"});
    QuantizedModules modules;
    modules.format = format;
    if (targets != nullptr) {
      ULLAGE_TRY(modules.targets, read_patterns(*targets, at(place, "targets")));
    }
    const auto is_class = [](const ModulePattern& pattern) {
      return pattern.text == "Linear" || pattern.text == "LinearBase" || pattern.text == "FusedMoE";
    };
    if (modules.targets.empty() || std::any_of(modules.targets.begin(), modules.targets.end(), is_class)) {
      quantization.format = format;
      has_rest = true;
    }
    std::erase_if(modules.targets, is_class);
    if (!modules.targets.empty()) quantization.groups.push_back(std::move(modules));
  }
  quantization.is_listed_only = !has_rest;
  return {};
}

// quantized_layers: {"model.layers.0.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16}, ...}.
Result<void> read_quantized_layers(const Json& layers, std::string_view where, Quantization& quantization) {
  if (!layers.is_object()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", layers.type_name()),
                 std::string(where)};
  }
  for (const auto& [name, own] : layers.items()) {
    const std::string place = at(where, name);
    if (!own.is_object()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", own.type_name()), place};
    }
    ULLAGE_TRY(const std::string algorithm, get_string(own, "quant_algo", "", place));
    ULLAGE_TRY(const int64_t group_size, get_int(own, "group_size", 0, place));
    ULLAGE_TRY(const WeightFormat format, modelopt_format(algorithm, group_size, place));
    ULLAGE_TRY(ModulePattern pattern, parse_module_pattern(canonical_module(name), place));
    auto group = std::find_if(quantization.groups.begin(), quantization.groups.end(),
                              [&](const QuantizedModules& each) { return each.format == format; });
    if (group == quantization.groups.end()) {
      group = quantization.groups.insert(quantization.groups.end(), QuantizedModules{});
      group->format = format;
    }
    if (group->targets.empty() || group->targets.back() != pattern) group->targets.push_back(std::move(pattern));
  }
  return {};
}

Result<void> read_modelopt(const Json& config, std::string_view where, Quantization& quantization) {
  quantization.method = "modelopt";
  ULLAGE_TRY(const std::string algorithm, get_string(config, "quant_algo", "", where));
  ULLAGE_TRY(const int64_t group_size, get_int(config, "group_size", 0, where));
  if (algorithm == "MIXED_PRECISION") {
    const Json* layers = find_any(config, {"quantized_layers"});
    if (layers == nullptr) {
      return Error{ErrorCode::kInvalidArgument, "says MIXED_PRECISION, but has no quantized_layers",
                   at(where, "quant_algo")};
    }
    quantization.is_listed_only = true;
    ULLAGE_TRY_VOID(read_quantized_layers(*layers, at(where, "quantized_layers"), quantization));
    return {};
  }
  if (algorithm.empty() && config.contains("config_groups")) return read_config_groups(config, where, quantization);
  ULLAGE_TRY(quantization.format, modelopt_format(algorithm, group_size, at(where, "quant_algo")));
  return {};
}

Result<void> read_bitsandbytes(const Json& config, std::string_view where, Quantization& quantization) {
  ULLAGE_TRY(const bool is_4bit, get_bool(config, "load_in_4bit", false, where));
  ULLAGE_TRY(const bool is_8bit, get_bool(config, "load_in_8bit", false, where));
  ULLAGE_TRY(const bool is_double, get_bool(config, "bnb_4bit_use_double_quant", false, where));
  if (is_4bit == is_8bit) {
    return Error{ErrorCode::kInvalidArgument, "one of load_in_4bit and load_in_8bit was expected to be true",
                 std::string(where)};
  }
  quantization.format = is_4bit ? bitsandbytes_4bit(is_double) : per_channel(Compute::kINT8);
  return {};
}

Result<void> read_method(const std::string& method, const Json& config, std::string_view where,
                         Quantization& quantization) {
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), method) != names.end();
  };
  if (is({"fp8", "finegrained_fp8"})) return read_fp8(config, where, quantization);
  if (is({"fbgemm_fp8", "ptpc_fp8"})) {
    quantization.format = per_channel(Compute::kFP8);
    return {};
  }
  if (is({"awq", "awq_marlin"})) return read_awq(config, where, quantization);
  if (is({"gptq", "gptq_marlin"})) return read_gptq(config, where, quantization);
  if (is({"auto-round", "auto_round", "autoround", "intel/auto-round", "inc"})) {
    return read_auto_round(config, where, quantization);
  }
  if (is({"compressed-tensors", "modelslim"})) return read_config_groups(config, where, quantization);
  if (is({"modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8"})) {
    return read_modelopt(config, where, quantization);
  }
  if (is({"mxfp4", "gpt_oss_mxfp4"})) {
    quantization.format = mxfp(4);
    quantization.is_experts_only = true;
    return {};
  }
  if (is({"bitsandbytes"})) return read_bitsandbytes(config, where, quantization);
  if (is({"experts_int8"})) {
    quantization.format = per_channel(Compute::kINT8);
    quantization.is_experts_only = true;
    return {};
  }
  if (is({"mxfp8"})) {
    quantization.format = mxfp(8);
    return {};
  }
  if (is({"quark"})) return read_quark(config, where, quantization);
  if (is({"torchao"})) return read_torchao(config, where, quantization);
  return Error{ErrorCode::kUnsupported,
               fmt::format("the quantisation method {} is not known; known are fp8, fbgemm_fp8, awq, gptq, auto-round, "
                           "compressed-tensors, modelopt, mxfp4, mxfp8, bitsandbytes, experts_int8, quark and torchao. "
                           "Say how its weights are stored with --weights",
                           quote(method)),
               at(where, "quant_method")};
}

Result<Quantization> read_one(const Json& config, std::string_view where) {
  if (!config.is_object()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", config.type_name()),
                 std::string(where)};
  }
  Quantization quantization;
  ULLAGE_TRY(quantization.method, get_string(config, "quant_method", "", where));
  // modelopt's exports say what they are by quant_algo; some leave quant_method out.
  if (quantization.method.empty() && config.contains("quant_algo")) quantization.method = "modelopt";
  if (quantization.method.empty()) {
    return Error{ErrorCode::kInvalidArgument, "has neither quant_method nor quant_algo: how are its weights stored?",
                 std::string(where)};
  }
  ULLAGE_TRY_VOID(read_method(quantization.method, config, where, quantization));
  ULLAGE_TRY_VOID(read_ignored(config, where, quantization));
  ULLAGE_TRY_VOID(read_kv_cache(config, where, quantization));
  if (quantization.method == "fp8" && config.contains("moe_quant_algo")) {
    // FP8 with experts that modelopt stored anew (DeepSeek V4's NVFP4): its list of what to leave alone is about those.
    ULLAGE_TRY(const std::string algorithm, get_string(config, "moe_quant_algo", "", where));
    ULLAGE_TRY(const int64_t group_size, get_int(config, "group_size", 0, where));
    ULLAGE_TRY(quantization.expert_format, modelopt_format(algorithm, group_size, at(where, "moe_quant_algo")));
    quantization.has_expert_format = true;
    quantization.ignored.clear();
  }
  return quantization;
}

}  // namespace

Result<Quantization> read_quantization(const Json& config, std::string_view where) {
  if (!config.is_object()) return Quantization{};
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (config.contains(key) && !config[key].is_null()) return read_one(config[key], at(where, key));
  }
  if (config.contains("text_config") && config["text_config"].is_object()) {
    const Json& text = config["text_config"];
    if (text.contains("quantization_config") && !text["quantization_config"].is_null()) {
      return read_one(text["quantization_config"], at(where, "text_config/quantization_config"));
    }
  }
  return Quantization{};
}

Result<Quantization> parse_hf_quant_config(std::string_view json, std::string_view where) {
  ULLAGE_TRY(SortedJson document, parse_sorted_json(json, where, {.max_bytes = kMaxHfQuantBytes}));
  if (!document.is_object() || !document.contains("quantization") || !document["quantization"].is_object()) {
    return Error{ErrorCode::kInvalidArgument, "has no \"quantization\"; is it a hf_quant_config.json of modelopt?",
                 std::string(where)};
  }
  SortedJson& given = document["quantization"];
  // Lists of thousands of experts become one entry a layer before they are copied: Json's objects are slow to fill.
  if (given.contains("quantized_layers") && given["quantized_layers"].is_object()) {
    SortedJson layers = SortedJson::object();
    for (const auto& [name, own] : given["quantized_layers"].items()) layers.emplace(canonical_module(name), own);
    given["quantized_layers"] = std::move(layers);
  }
  const Json own = given;
  const std::string place = at(where, "quantization");
  Quantization quantization;
  ULLAGE_TRY_VOID(read_modelopt(own, place, quantization));
  ULLAGE_TRY_VOID(read_ignored(own, place, quantization));
  ULLAGE_TRY_VOID(read_kv_cache(own, place, quantization));
  return quantization;
}

}  // namespace ullage::model
