#include "ullage/model/config_fields.h"

#include <utility>

#include <fmt/format.h>

#include "ullage/base/json.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {

namespace {

constexpr size_t kMaxListLength = 4096;

}  // namespace

ConfigFields::ConfigFields(const Json& object, std::string where, bool may_omit)
    : object_(object), where_(std::move(where)), may_omit_(may_omit) {}

std::string ConfigFields::at(std::string_view key) const {
  return key.empty() ? where_ : fmt::format("{}/{}", where_, key);
}

bool ConfigFields::states(const char* key) const { return object_.contains(key); }

bool ConfigFields::has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

bool ConfigFields::is_list(const char* key) const { return object_.contains(key) && object_[key].is_array(); }

int64_t ConfigFields::num_entries(const char* key) const {
  return is_list(key) ? static_cast<int64_t>(object_[key].size()) : 0;
}

const char* ConfigFields::first_of(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    if (has(key)) return key;
  }
  return *keys.begin();
}

Result<int64_t> ConfigFields::required(const char* key, int64_t most, int64_t class_default) const {
  if (!has(key)) {
    if (may_omit_ && class_default > 0) return class_default;
    return missing(key);
  }
  return size(key, 0, most);
}

Result<int64_t> ConfigFields::size(const char* key, int64_t fallback, int64_t most) const {
  ULLAGE_TRY(const int64_t value, get_int(object_, key, fallback, where_));
  return check_size(value, most, at(key));
}

Result<int64_t> ConfigFields::count(const char* key, int64_t fallback, int64_t most) const {
  ULLAGE_TRY(const int64_t value, get_int(object_, key, fallback, where_));
  if (value >= 0 && value <= most) return value;
  return invalid(fmt::format("is {}; 0 to {} was expected", value, most), key);
}

Result<int64_t> ConfigFields::integer(const char* key, int64_t fallback) const {
  return get_int(object_, key, fallback, where_);
}

Result<double> ConfigFields::positive(const char* key, double fallback) const {
  ULLAGE_TRY(const double value, get_double(object_, key, fallback, where_));
  return check_positive(value, at(key));
}

Result<double> ConfigFields::number(const char* key, double fallback) const {
  return get_double(object_, key, fallback, where_);
}

Result<bool> ConfigFields::flag(const char* key, bool fallback) const {
  return get_bool(object_, key, fallback, where_);
}

Result<std::string> ConfigFields::text(const char* key, std::string_view fallback) const {
  return get_string(object_, key, fallback, where_);
}

Result<std::vector<int64_t>> ConfigFields::integers(const char* key, int64_t num_expected, int64_t least,
                                                    int64_t most) const {
  const Json& list = object_[key];
  if (!list.is_array()) return invalid(fmt::format("expected a list, found {}", list.type_name()), key);
  if (num_expected >= 0 && list.size() != static_cast<uint64_t>(num_expected)) {
    return invalid(fmt::format("has {} entries; one for each of the {} layers was expected", list.size(), num_expected),
                   key);
  }
  if (list.size() > kMaxListLength) {
    return invalid(fmt::format("has {} entries; at most {} were expected", list.size(), kMaxListLength), key);
  }
  std::vector<int64_t> values;
  values.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}/{}", at(key), i);
    // Lists of flags are written as numbers by some models and as true and false by others.
    if (list[i].is_boolean()) {
      values.push_back(list[i].get<bool>() ? 1 : 0);
      continue;
    }
    const Json one{{"value", list[i]}};
    if (list[i].is_null()) return Error{ErrorCode::kInvalidArgument, "expected an integer, found null", place};
    auto value = get_int(one, "value", 0, place);
    if (!value) return Error{value.error().code, value.error().message, place};
    if (*value < least || *value > most) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; {} to {} was expected", *value, least, most),
                   place};
    }
    values.push_back(*value);
  }
  return values;
}

Result<std::vector<std::string>> ConfigFields::texts(const char* key, int64_t num_expected) const {
  const Json& list = object_[key];
  if (!list.is_array() || list.size() != static_cast<uint64_t>(num_expected)) {
    return invalid(fmt::format("expected one entry for each of the {} layers", num_expected), key);
  }
  std::vector<std::string> values;
  values.reserve(list.size());
  for (const Json& entry : list) {
    values.push_back(entry.is_string() ? entry.get<std::string>() : std::string(entry.type_name()));
  }
  return values;
}

Result<ConfigFields> ConfigFields::section(const char* key, bool may_omit) const {
  const Json& object = object_[key];
  if (!object.is_object()) return invalid(fmt::format("expected an object, found {}", object.type_name()), key);
  return ConfigFields(object, at(key), may_omit);
}

Error ConfigFields::missing(const char* key) const {
  return invalid(fmt::format("has no \"{}\"; is it the model's own config.json?", key));
}

Error ConfigFields::invalid(std::string message, std::string_view key) const {
  return Error{ErrorCode::kInvalidArgument, std::move(message), at(key)};
}

Error ConfigFields::unsupported(std::string message, std::string_view key) const {
  return Error{ErrorCode::kUnsupported, std::move(message), at(key)};
}

}  // namespace ullage::model
