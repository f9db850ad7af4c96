#include "ullage/model/quantization_schemes.h"

#include <algorithm>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/module_names.h"
#include "ullage/model/weight_formats.h"

namespace ullage::model {
namespace {

using Compute = WeightFormat::Compute;

constexpr int64_t kMaxGroupSize = int64_t{1} << 20;

bool has(const Json& object, const char* key) { return object.contains(key) && !object[key].is_null(); }

std::string at(std::string_view where, std::string_view key) { return fmt::format("{}/{}", where, key); }

Result<int64_t> check_group_size(int64_t size, std::string_view where) {
  if (size == -1 || (size >= 1 && size <= kMaxGroupSize)) return size;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("is {}; -1 (a whole row) or 1 to {} was expected", size, kMaxGroupSize), std::string(where)};
}

Result<int32_t> check_bits(int64_t bits, std::string_view where) {
  if (bits >= 1 && bits <= 8) return static_cast<int32_t>(bits);
  return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; 1 to 8 bits were expected", bits), std::string(where)};
}

Error unknown_scheme(std::string_view what, std::string_view found, std::string_view where) {
  return Error{ErrorCode::kUnsupported,
               fmt::format("the {} {} is not known; say how its weights are stored with --weights", what, quote(found)),
               std::string(where)};
}

// Weights of 8 bits: one scale a tensor, a channel or a block.
Result<WeightFormat> eight_bits(const Json& weights, const std::string& strategy, bool is_float,
                                bool has_static_activations, std::string_view where) {
  const Compute compute = is_float ? Compute::kFP8 : Compute::kINT8;
  if (strategy == "channel") return per_channel(compute);
  if (strategy == "block") {
    ULLAGE_TRY(const auto sides, read_block_size(weights["block_structure"], at(where, "weights/block_structure")));
    return fp8_block(sides[0], sides[1], 32);
  }
  if (strategy == "tensor" || strategy.empty()) {
    WeightFormat format = fp8_per_tensor(has_static_activations);
    format.compute = compute;
    return format;
  }
  return unknown_scheme("strategy", strategy, at(where, "weights/strategy"));
}

}  // namespace

Result<IntScheme> read_int_scheme(const Json& config, std::initializer_list<const char*> bits,
                                  std::initializer_list<const char*> group_size, std::string_view where) {
  IntScheme scheme;
  for (const char* key : bits) {
    if (!has(config, key)) continue;
    ULLAGE_TRY(const int64_t value, get_int(config, key, 4, where));
    ULLAGE_TRY(scheme.bits, check_bits(value, at(where, key)));
    break;
  }
  for (const char* key : group_size) {
    if (!has(config, key)) continue;
    ULLAGE_TRY(const int64_t value, get_int(config, key, 128, where));
    ULLAGE_TRY(scheme.group_size, check_group_size(value, at(where, key)));
    break;
  }
  return scheme;
}

Result<std::array<int64_t, 2>> read_block_size(const Json& list, std::string_view where) {
  if (!list.is_array() || list.size() != 2 || !list[0].is_number_integer() || !list[1].is_number_integer()) {
    return Error{ErrorCode::kInvalidArgument, "expected two numbers, rows and columns of a block", std::string(where)};
  }
  std::array<int64_t, 2> sides{};
  for (size_t i = 0; i < 2; ++i) {
    sides[i] = list[i].get<int64_t>();
    if (sides[i] < 1 || sides[i] > kMaxGroupSize) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; 1 to {} was expected", sides[i], kMaxGroupSize),
                   fmt::format("{}/{}", where, i)};
    }
  }
  return sides;
}

Result<WeightFormat> read_weight_scheme(const Json& group, std::string_view where) {
  if (!has(group, "weights") || !group["weights"].is_object()) {
    return Error{ErrorCode::kInvalidArgument, "has no weights, which say how the matrices are stored",
                 std::string(where)};
  }
  const Json& weights = group["weights"];
  const std::string place = at(where, "weights");
  ULLAGE_TRY(const int64_t given_bits, get_int(weights, "num_bits", 8, place));
  ULLAGE_TRY(const int32_t bits, check_bits(given_bits, at(place, "num_bits")));
  ULLAGE_TRY(const std::string type, get_string(weights, "type", "int", place));
  ULLAGE_TRY(const std::string strategy, get_string(weights, "strategy", "", place));
  ULLAGE_TRY(const bool is_symmetric, get_bool(weights, "symmetric", true, place));
  ULLAGE_TRY(const int64_t given_group, get_int(weights, "group_size", -1, place));
  ULLAGE_TRY(const int64_t group_size, check_group_size(given_group, at(place, "group_size")));
  const bool has_activations = has(group, "input_activations") && group["input_activations"].is_object();
  bool is_static = false;
  if (has_activations) {
    ULLAGE_TRY(const bool is_dynamic,
               get_bool(group["input_activations"], "dynamic", false, at(where, "input_activations")));
    is_static = !is_dynamic;
  }
  if (type != "int" && type != "float") return unknown_scheme("type of numbers", type, at(place, "type"));
  if (type == "float" && bits == 4) {
    // In groups of 16 with two levels of scales it is NVFP4, in groups of 32 MXFP4.
    if (group_size == 32) return mxfp(4);
    if (group_size == 16 || group_size == -1) return nvfp4(has_activations);
    return unknown_scheme("group size of FP4 numbers", std::to_string(group_size), at(place, "group_size"));
  }
  if (type == "float" && bits == 8 && group_size == 32) return mxfp(8);
  const bool is_grouped = strategy == "group" || (bits < 8 && group_size > 0);
  if (bits == 8 && !is_grouped) {
    ULLAGE_TRY(WeightFormat format, eight_bits(weights, strategy, type == "float", is_static, where));
    if (!has_activations) format.compute = Compute::kBF16;
    return format;
  }
  if (type == "float") return unknown_scheme("number of bits of floats", std::to_string(bits), at(place, "num_bits"));
  WeightFormat format = grouped_int(bits, is_grouped ? group_size : -1, !is_symmetric);
  if (has_activations) format.compute = Compute::kINT8;  // w4a8
  return format;
}

Result<WeightFormat> modelopt_format(std::string_view algorithm, int64_t group_size, std::string_view where) {
  if (group_size != 0) {
    ULLAGE_TRY_VOID(check_group_size(group_size, where));
  }
  const int64_t int_group = group_size == 0 ? 128 : group_size;
  if (algorithm == "FP8") return fp8_per_tensor(true);
  if (algorithm == "FP8_PER_CHANNEL_PER_TOKEN") return per_channel(Compute::kFP8);
  if (algorithm == "FP8_PB_WO" || algorithm == "FP8_BLOCK_SCALES") return fp8_block(128, 128, 32);
  if (algorithm == "NVFP4" || algorithm == "NVFP4_AWQ" || algorithm == "NVFP4_SVDQUANT") return nvfp4(true);
  if (algorithm == "W4A16_NVFP4" || algorithm == "NVFP4_W4A16") return nvfp4(false);
  if (algorithm == "MXFP8") return mxfp(8);
  if (algorithm == "MXFP4" || algorithm == "W4A8_MXFP4_FP8") return mxfp(4);
  if (algorithm == "INT4_AWQ" || algorithm == "W4A16_AWQ" || algorithm == "W4A8_AWQ") {
    return grouped_int(4, int_group, false);
  }
  if (algorithm == "INT8_SQ" || algorithm == "W8A8_SQ_PER_CHANNEL") return per_channel(Compute::kINT8);
  if (algorithm == "W8A16") {
    WeightFormat format = per_channel(Compute::kINT8);
    format.compute = Compute::kBF16;
    return format;
  }
  return unknown_scheme("quant_algo", algorithm, where);
}

}  // namespace ullage::model
