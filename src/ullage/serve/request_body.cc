#include "ullage/serve/request_body.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ullage/serve/utf8.h"

namespace ullage::serve {
namespace {

// Counts the members of every object before the reader sees them. REQUIRES: depth was checked, or is checked after.
Result<void> check_members(std::string_view body, const RequestLimits& limits) {
  std::vector<int64_t> members;  // of each open bracket
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (static_cast<int64_t>(members.size()) >= limits.max_json_depth) return {};  // the reader refuses it
      members.push_back(0);
    } else if ((c == ']' || c == '}') && !members.empty()) {
      members.pop_back();
    } else if (c == ':' && !members.empty() && ++members.back() > limits.max_members) {
      return Error{ErrorCode::kTooLarge,
                   fmt::format("a JSON object in the body has more than {} members (byte {})", limits.max_members, i),
                   ""};
    }
  }
  return {};
}

Error wrong_type(const Json& value, std::string_view where, std::string_view expected) {
  return bad_field(where, fmt::format("'{}' must be {}, found {}", where, expected, type_name(value)));
}

// The value as an integer, when it is one (a float that is whole counts: some clients send 16.0).
std::optional<int64_t> as_int(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t u = value.get<uint64_t>();
    if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(u);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const double d = value.get<double>();
    if (std::trunc(d) == d && std::abs(d) <= 9007199254740992.0) return static_cast<int64_t>(d);
  }
  return std::nullopt;
}

}  // namespace

Error bad_field(std::string_view where, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::string(where)};
}

Error unsupported_field(std::string_view where, std::string_view hint) {
  return Error{ErrorCode::kUnsupported,
               fmt::format("'{}' is not supported by this server{}{}", where, hint.empty() ? "" : ": ", hint),
               std::string(where)};
}

const char* type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_float:
      return "a fraction";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    default:
      return "something else";
  }
}

// A value costs about 70 bytes once parsed; prompts as token ids are the only honest reason for many.
constexpr int64_t kMaxValues = int64_t{2} << 20;

Result<Json> parse_request_body(std::string_view body, const RequestLimits& limits) {
  if (body.empty()) return Error{ErrorCode::kCorrupt, "the request has no body; send a JSON object", ""};
  if (!is_valid_utf8(body)) return Error{ErrorCode::kCorrupt, "the request body is not valid UTF-8", ""};
  ULLAGE_TRY_VOID(check_members(body, limits));
  JsonLimits json_limits;
  json_limits.max_bytes = static_cast<int64_t>(body.size());
  json_limits.max_values = kMaxValues;
  json_limits.max_depth = static_cast<int>(limits.max_json_depth);
  auto json = parse_json(body, "", json_limits);
  if (!json) {
    Error error = std::move(json).error();
    error.message = "cannot read the request body: " + error.message;
    return error;
  }
  if (!json->is_object()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the request body must be a JSON object, found {}", type_name(*json)), ""};
  }
  return std::move(*json);
}

const Json* find_member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<std::optional<int64_t>> read_int(const Json& object, const char* key, Range<int64_t> range) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<int64_t>();
  if (!value->is_number()) return wrong_type(*value, key, "an integer");
  const std::optional<int64_t> number = as_int(*value);
  if (!number) {
    return bad_field(key, fmt::format("'{}' must be a 64-bit integer, found {}", key, dump_json(*value)));
  }
  if (*number < range.min) {
    return bad_field(key, fmt::format("'{}' must be at least {}, found {}", key, range.min, *number));
  }
  if (*number > range.max) {
    return bad_field(key, fmt::format("'{}' must be at most {}, found {}", key, range.max, *number));
  }
  return number;
}

Result<std::optional<double>> read_double(const Json& object, const char* key, Range<double> range) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong_type(*value, key, "a number");
  const double number = value->get<double>();
  if (!std::isfinite(number) || number < range.min || number > range.max) {
    const bool has_min = range.min != std::numeric_limits<double>::lowest();
    const bool has_max = range.max != std::numeric_limits<double>::max();
    std::string expected = "a finite number";
    if (has_min && has_max) {
      expected = fmt::format("in [{:g}, {:g}]", range.min, range.max);
    } else if (has_min) {
      expected = fmt::format("at least {:g}", range.min);
    }
    return bad_field(key, fmt::format("'{}' must be {}, found {}", key, expected, dump_json(*value)));
  }
  return std::optional<double>(number);
}

Result<std::optional<bool>> read_bool(const Json& object, const char* key) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong_type(*value, key, "true or false");
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> read_string(const Json& object, const char* key) {
  const Json* value = find_member(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(*value, key, "a string");
  return std::optional<std::string>(value->get<std::string>());
}

Result<std::vector<TokenId>> read_token_list(const Json& value, std::string_view where) {
  if (!value.is_array()) return wrong_type(value, where, "an array of token ids");
  std::vector<TokenId> tokens;
  tokens.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const Json& item = value[i];
    const std::optional<int64_t> id = item.is_number() ? as_int(item) : std::nullopt;
    if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max()) {
      return bad_field(where, fmt::format("'{}' must hold token ids (integers from 0), found {} at index {}", where,
                                          item.is_number() ? dump_json(item) : type_name(item), i));
    }
    tokens.push_back(static_cast<TokenId>(*id));
  }
  return tokens;
}

}  // namespace ullage::serve
