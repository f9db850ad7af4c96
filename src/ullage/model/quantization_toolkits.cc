// AMD Quark's and torchao's configs.
#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/module_names.h"
#include "ullage/model/quantization_schemes.h"
#include "ullage/model/weight_formats.h"

namespace ullage::model {
namespace {

using Compute = WeightFormat::Compute;

std::string at(std::string_view where, std::string_view key) { return fmt::format("{}/{}", where, key); }

// {"weight": {"dtype", "qscheme", "group_size"}, "input_tensors": {...} or null}. Weights of two stages are a list.
Result<WeightFormat> quark_format(const Json& scheme, std::string_view where) {
  if (!scheme.is_object() || !scheme.contains("weight")) {
    return Error{ErrorCode::kInvalidArgument, "has no weight, which says how the matrices are stored",
                 std::string(where)};
  }
  const Json& given = scheme["weight"];
  const Json& weight = given.is_array() && !given.empty() ? given[0] : given;
  const std::string place = at(where, "weight");
  if (!weight.is_object()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", weight.type_name()), place};
  }
  ULLAGE_TRY(const std::string dtype, get_string(weight, "dtype", "", place));
  ULLAGE_TRY(const std::string qscheme, get_string(weight, "qscheme", "per_tensor", place));
  ULLAGE_TRY(const IntScheme groups, read_int_scheme(weight, {}, {"group_size"}, place));
  const bool has_inputs = scheme.contains("input_tensors") && !scheme["input_tensors"].is_null();
  if (dtype == "fp8_e4m3") {
    return qscheme == "per_tensor" ? fp8_per_tensor(has_inputs) : per_channel(Compute::kFP8);
  }
  if (dtype == "fp4") return mxfp(4);
  if (dtype == "int8") {
    if (qscheme != "per_tensor") return per_channel(Compute::kINT8);
    WeightFormat format = fp8_per_tensor(has_inputs);
    format.compute = Compute::kINT8;
    return format;
  }
  if (dtype == "int4" || dtype == "uint4") return grouped_int(4, groups.group_size, dtype == "uint4");
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("Quark's weights of type {} are not known; say how they are stored with --weights", quote(dtype)),
      at(place, "dtype")};
}

struct TorchaoType {
  std::string_view old_name;
  std::string_view class_name;
};
constexpr TorchaoType kInt4 = {"int4_weight_only", "Int4WeightOnlyConfig"};
constexpr TorchaoType kInt8 = {"int8_weight_only", "Int8WeightOnlyConfig"};
constexpr TorchaoType kInt8Dynamic = {"int8_dynamic_activation_int8_weight", "Int8DynamicActivationInt8WeightConfig"};
constexpr TorchaoType kInt8Int4 = {"int8_dynamic_activation_int4_weight", "Int8DynamicActivationInt4WeightConfig"};
constexpr TorchaoType kInt8IntX = {"int8_dynamic_activation_intx_weight", "Int8DynamicActivationIntxWeightConfig"};
constexpr TorchaoType kFloat8 = {"float8_weight_only", "Float8WeightOnlyConfig"};
constexpr TorchaoType kFloat8Dynamic = {"float8_dynamic_activation_float8_weight",
                                        "Float8DynamicActivationFloat8WeightConfig"};

}  // namespace

Result<void> read_quark(const Json& config, std::string_view where, Quantization& quantization) {
  if (!config.contains("global_quant_config")) {
    return Error{ErrorCode::kInvalidArgument, "has no global_quant_config, which says how matrices are stored",
                 std::string(where)};
  }
  ULLAGE_TRY(quantization.format, quark_format(config["global_quant_config"], at(where, "global_quant_config")));
  if (!config.contains("layer_quant_config") || !config["layer_quant_config"].is_object()) return {};
  for (const auto& [name, scheme] : config["layer_quant_config"].items()) {
    const std::string place = at(at(where, "layer_quant_config"), name);
    QuantizedModules modules;
    ULLAGE_TRY(modules.format, quark_format(scheme, place));
    ULLAGE_TRY(ModulePattern pattern, parse_module_pattern(canonical_module(name), place));
    modules.targets.push_back(std::move(pattern));
    quantization.groups.push_back(std::move(modules));
  }
  return {};
}

Result<void> read_torchao(const Json& config, std::string_view where, Quantization& quantization) {
  const std::string place = at(where, "quant_type");
  std::string name;
  int64_t group_size = 128;
  if (config.contains("quant_type") && config["quant_type"].is_string()) {
    name = config["quant_type"].get<std::string>();
  } else if (config.contains("quant_type") && config["quant_type"].is_object()) {
    const Json& given = config["quant_type"];
    const Json& type = given.contains("default") ? given["default"] : given;
    if (type.is_object()) {
      ULLAGE_TRY(name, get_string(type, "_type", "", at(place, "default")));
      if (type.contains("_data") && type["_data"].is_object()) {
        ULLAGE_TRY(const IntScheme scheme,
                   read_int_scheme(type["_data"], {}, {"group_size"}, at(place, "default/_data")));
        group_size = scheme.group_size;
      }
    }
  }
  const auto is = [&](const TorchaoType& type) { return name == type.old_name || name == type.class_name; };
  if (is(kInt4)) {
    quantization.format = grouped_int(4, group_size, false);
    quantization.format.zero_bits = 16;  // tinygemm keeps the zero point as bf16
  } else if (is(kInt8Int4) || is(kInt8IntX)) {
    quantization.format = grouped_int(4, group_size, false);
    quantization.format.scale_bits = 32;
    quantization.format.compute = Compute::kINT8;
  } else if (is(kInt8) || is(kInt8Dynamic)) {
    quantization.format = per_channel(is(kInt8) ? Compute::kBF16 : Compute::kINT8);
  } else if (is(kFloat8) || is(kFloat8Dynamic)) {
    quantization.format = per_channel(is(kFloat8) ? Compute::kBF16 : Compute::kFP8);
  } else {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("torchao's type {} is not known; say how its weights are stored with --weights", quote(name)),
        place};
  }
  return {};
}

}  // namespace ullage::model
