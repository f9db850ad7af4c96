#include "ullage/model/config_rope.h"

#include <string>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

Result<double> get_positive(const Json& object, const char* key, double fallback, std::string_view where) {
  ULLAGE_TRY(const double value, get_double(object, key, fallback, where));
  return check_positive(value, fmt::format("{}/{}", where, key));
}

Result<void> require(const Json& object, const char* key, const std::string& type, std::string_view where) {
  if (object.contains(key) && !object[key].is_null()) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("has no \"{}\", which the RoPE scaling \"{}\" needs", key, type), std::string(where)};
}

Result<void> read_llama3(const Json& scaling, Rope& rope, const std::string& type, std::string_view where) {
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    ULLAGE_TRY_VOID(require(scaling, key, type, where));
  }
  ULLAGE_TRY(rope.low_freq_factor, get_positive(scaling, "low_freq_factor", rope.low_freq_factor, where));
  ULLAGE_TRY(rope.high_freq_factor, get_positive(scaling, "high_freq_factor", rope.high_freq_factor, where));
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("low_freq_factor {} is not below high_freq_factor {}", rope.low_freq_factor, rope.high_freq_factor),
        std::string(where)};
  }
  rope.scaling = RopeScaling::kLlama3;
  return {};
}

Result<void> read_yarn(const Json& scaling, Rope& rope, std::string_view where) {
  ULLAGE_TRY(rope.beta_fast, get_positive(scaling, "beta_fast", rope.beta_fast, where));
  ULLAGE_TRY(rope.beta_slow, get_positive(scaling, "beta_slow", rope.beta_slow, where));
  ULLAGE_TRY(rope.yarn_truncate, get_bool(scaling, "truncate", true, where));
  const auto optional_positive = [&](const char* key, double& out) -> Result<void> {
    if (!scaling.contains(key) || scaling[key].is_null()) return {};
    ULLAGE_TRY(out, get_positive(scaling, key, 0, where));
    return {};
  };
  ULLAGE_TRY_VOID(optional_positive("attention_factor", rope.attention_factor));
  ULLAGE_TRY_VOID(optional_positive("mscale", rope.mscale));
  ULLAGE_TRY_VOID(optional_positive("mscale_all_dim", rope.mscale_all_dim));
  rope.scaling = RopeScaling::kYarn;
  return {};
}

// The part that describes the scaling: transformers 5 writes rope_parameters, earlier ones rope_scaling.
struct Scaling {
  const Json* object = nullptr;
  std::string where;
};
Result<Scaling> find_scaling(const Json& config, std::string_view where) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.contains(key) || config[key].is_null()) continue;
    const Json& object = config[key];
    std::string at = fmt::format("{}/{}", where, key);
    if (!object.is_object()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("expected an object, found {}", object.type_name()), at};
    }
    for (const char* layer_type : {"full_attention", "sliding_attention"}) {
      if (object.contains(layer_type)) {
        return Error{ErrorCode::kUnsupported, "different rotations for different layers are not supported", at};
      }
    }
    return Scaling{&object, std::move(at)};
  }
  return Scaling{};
}

Result<void> refuse_partial_rotation(const Json& object, std::string_view where) {
  ULLAGE_TRY(const double part, get_double(object, "partial_rotary_factor", 1.0, where));
  if (part == 1.0) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("is {}; these model families rotate whole heads, and others are not supported", part),
               fmt::format("{}/partial_rotary_factor", where)};
}

}  // namespace

Result<Rope> parse_config_rope(const Json& config, int64_t head_dim, int64_t max_positions, std::string_view where) {
  Rope rope;
  rope.rotary_dim = head_dim;
  rope.pairing = RopePairing::kHalves;
  ULLAGE_TRY(rope.theta, get_positive(config, "rope_theta", rope.theta, where));
  ULLAGE_TRY_VOID(refuse_partial_rotation(config, where));
  ULLAGE_TRY(const Scaling scaling, find_scaling(config, where));
  if (scaling.object == nullptr) return rope;

  const Json& object = *scaling.object;
  ULLAGE_TRY(rope.theta, get_positive(object, "rope_theta", rope.theta, scaling.where));
  ULLAGE_TRY_VOID(refuse_partial_rotation(object, scaling.where));
  ULLAGE_TRY(const std::string old_type, get_string(object, "type", "default", scaling.where));
  ULLAGE_TRY(const std::string type, get_string(object, "rope_type", old_type, scaling.where));
  if (type == "default") return rope;

  if (type == "linear") {
    ULLAGE_TRY_VOID(require(object, "factor", type, scaling.where));
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "llama3") {
    ULLAGE_TRY_VOID(read_llama3(object, rope, type, scaling.where));
  } else if (type == "yarn") {
    ULLAGE_TRY_VOID(read_yarn(object, rope, scaling.where));
  } else {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the RoPE scaling {} is not supported; supported are default, linear, llama3 and yarn",
                             quote(type)),
                 scaling.where};
  }
  ULLAGE_TRY(int64_t original, get_int(object, "original_max_position_embeddings", max_positions, scaling.where));
  // The same key beside the scaling wins, as it does in transformers.
  ULLAGE_TRY(original, get_int(config, "original_max_position_embeddings", original, where));
  ULLAGE_TRY(rope.original_max_positions,
             check_size(original, kMaxPositions, scaling.where + "/original_max_position_embeddings"));
  // YaRN without a factor takes the ratio of the two lengths, as transformers does.
  const double ratio = static_cast<double>(max_positions) / static_cast<double>(rope.original_max_positions);
  ULLAGE_TRY(rope.factor, get_positive(object, "factor", ratio, scaling.where));
  return rope;
}

}  // namespace ullage::model
