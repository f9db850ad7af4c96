#include "ullage/model/config_rope.h"

#include <string>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/model/config_reader.h"
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

Result<void> read_llama3(const Json& scaling, Rope& rope, const std::string& type, std::string_view where,
                         ModelShape& shape) {
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    ULLAGE_TRY_VOID(require(scaling, key, type, where));
  }
  ULLAGE_TRY(rope.low_freq_factor, get_positive(scaling, "low_freq_factor", rope.low_freq_factor, where));
  ULLAGE_TRY(rope.high_freq_factor, get_positive(scaling, "high_freq_factor", rope.high_freq_factor, where));
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    // Llama 4 Scout has both at 1, where the interpolation between them divides by zero: not run, but of no size.
    note_unservable(shape, Error{ErrorCode::kInvalidArgument,
                                 fmt::format("low_freq_factor {} is not below high_freq_factor {}",
                                             rope.low_freq_factor, rope.high_freq_factor),
                                 std::string(where)});
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
Result<Scaling> find_scaling(const ConfigFields& text, const char* layer_type, ModelShape& shape) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!text.has(key)) continue;
    const Json& object = text.object()[key];
    std::string at = text.at(key);
    if (!object.is_object()) {
      return text.invalid(fmt::format("expected an object, found {}", object.type_name()), key);
    }
    bool is_by_type = false;
    for (const char* each : {"full_attention", "sliding_attention"}) is_by_type = is_by_type || object.contains(each);
    if (!is_by_type) return Scaling{&object, std::move(at)};
    note_unservable(shape, text.unsupported("different rotations for different layers are not supported", key));
    if (!object.contains(layer_type) || !object[layer_type].is_object()) return Scaling{};
    return Scaling{&object[layer_type], fmt::format("{}/{}", at, layer_type)};
  }
  return Scaling{};
}

// The share of a head that turns; `rope.rotary_dim` is the head's on entry.
Result<void> read_partial_rotation(const Json& object, Rope& rope, ModelShape& shape, std::string_view where) {
  const std::string at = fmt::format("{}/partial_rotary_factor", where);
  ULLAGE_TRY(const double part, get_double(object, "partial_rotary_factor", 1.0, where));
  if (part == 1.0) return {};
  if (!(part > 0.0 && part < 1.0)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; more than 0 and at most 1 was expected", part), at};
  }
  note_unservable(shape, Error{ErrorCode::kUnsupported,
                               fmt::format("is {}; these model families rotate whole heads, and others are not "
                                           "supported",
                                           part),
                               at});
  rope.rotary_dim = static_cast<int64_t>(static_cast<double>(rope.rotary_dim) * part) / 2 * 2;
  return {};
}

}  // namespace

Result<Rope> parse_config_rope(const ConfigFields& text, int64_t head_dim, ModelShape& shape, const RopeKind& kind) {
  Rope rope;
  rope.rotary_dim = head_dim;
  rope.pairing = RopePairing::kHalves;
  if (kind.local_theta > 0 && !text.has("rope_parameters")) {
    // Gemma 3's sliding layers before transformers 5: a base of their own, and no scaling.
    ULLAGE_TRY(rope.theta, text.positive("rope_local_base_freq", kind.local_theta));
    return rope;
  }
  const char* theta = text.first_of({"rope_theta", "rotary_emb_base"});
  ULLAGE_TRY(rope.theta, text.positive(theta, kind.default_theta));
  ULLAGE_TRY_VOID(read_partial_rotation(text.object(), rope, shape, text.where()));
  ULLAGE_TRY(const Scaling scaling, find_scaling(text, kind.layer_type, shape));
  if (scaling.object == nullptr) return rope;

  const Json& object = *scaling.object;
  ULLAGE_TRY(rope.theta, get_positive(object, "rope_theta", rope.theta, scaling.where));
  if (rope.rotary_dim == head_dim) {
    ULLAGE_TRY_VOID(read_partial_rotation(object, rope, shape, scaling.where));
  }
  ULLAGE_TRY(const std::string old_type, get_string(object, "type", "default", scaling.where));
  ULLAGE_TRY(const std::string type, get_string(object, "rope_type", old_type, scaling.where));
  if (type == "default") return rope;

  if (type == "linear") {
    ULLAGE_TRY_VOID(require(object, "factor", type, scaling.where));
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "llama3") {
    ULLAGE_TRY_VOID(read_llama3(object, rope, type, scaling.where, shape));
  } else if (type == "yarn") {
    ULLAGE_TRY_VOID(read_yarn(object, rope, scaling.where));
  } else {
    note_unservable(shape, Error{ErrorCode::kUnsupported,
                                 fmt::format("the RoPE scaling {} is not supported; supported are default, linear, "
                                             "llama3 and yarn",
                                             quote(type)),
                                 scaling.where});
    rope.scaling = RopeScaling::kOther;
    return rope;
  }
  const int64_t max_positions = shape.max_position_embeddings;
  ULLAGE_TRY(int64_t original, get_int(object, "original_max_position_embeddings", max_positions, scaling.where));
  // The same key beside the scaling wins, as it does in transformers.
  ULLAGE_TRY(original, text.integer("original_max_position_embeddings", original));
  ULLAGE_TRY(rope.original_max_positions,
             check_size(original, kMaxPositions, scaling.where + "/original_max_position_embeddings"));
  // YaRN without a factor takes the ratio of the two lengths, as transformers does.
  const double ratio = static_cast<double>(max_positions) / static_cast<double>(rope.original_max_positions);
  ULLAGE_TRY(rope.factor, get_positive(object, "factor", ratio, scaling.where));
  return rope;
}

}  // namespace ullage::model
