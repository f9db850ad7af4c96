// Reading the fields of Hugging Face's tokenizer files. Include from .cc files only.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ullage/base/json.h"

namespace ullage::text {

// Missing keys, null and values that are no objects read as nullptr.
inline const SortedJson* find_field(const SortedJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

inline Error wrong_json_type(const SortedJson& value, std::string_view expected, std::string_view where) {
  return Error{ErrorCode::kCorrupt, fmt::format("expected {}, found {}", expected, value.type_name()),
               std::string(where)};
}

// A missing field gives `fallback`; another type is an Error at where/key.
inline Result<std::string> string_field(const SortedJson& object, const char* key, std::string_view fallback,
                                        std::string_view where) {
  const SortedJson* const value = find_field(object, key);
  if (!value) return std::string(fallback);
  if (!value->is_string()) return wrong_json_type(*value, "a string", fmt::format("{}/{}", where, key));
  return value->get_ref<const std::string&>();
}

inline Result<bool> bool_field(const SortedJson& object, const char* key, bool fallback, std::string_view where) {
  const SortedJson* const value = find_field(object, key);
  if (!value) return fallback;
  if (!value->is_boolean()) return wrong_json_type(*value, "true or false", fmt::format("{}/{}", where, key));
  return value->get<bool>();
}

inline Result<int64_t> int_field(const SortedJson& object, const char* key, int64_t fallback, std::string_view where) {
  const SortedJson* const value = find_field(object, key);
  if (!value) return fallback;
  if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
    return wrong_json_type(*value, "a whole number below 2^63", fmt::format("{}/{}", where, key));
  }
  return value->get<int64_t>();
}

}  // namespace ullage::text
