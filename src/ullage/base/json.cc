#include "ullage/base/json.h"

#include <cmath>

#include <fmt/format.h>

namespace ullage {
namespace {

// Looks at brackets and commas outside strings only, before nlohmann's recursive destructor and dump see the document,
// and before `[],[],...` becomes a tree of twenty times its bytes.
Result<void> check_shape(std::string_view text, std::string_view where, const JsonLimits& limits) {
  int depth = 0;
  int64_t num_values = 1;  // each bracket or comma begins at most one more
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++num_values;
      if (++depth > limits.max_depth) {
        return Error{ErrorCode::kTooLarge,
                     fmt::format("JSON is nested over {} levels deep at byte {}", limits.max_depth, i),
                     std::string(where)};
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++num_values;
    }
    if (num_values > limits.max_values) {
      return Error{ErrorCode::kTooLarge, fmt::format("JSON has over {} values at byte {}", limits.max_values, i),
                   std::string(where)};
    }
  }
  return {};
}

// Finds the offset of the first syntax error: nlohmann's no-throw parse does not tell it.
class ErrorFinder : public nlohmann::json_sax<Json> {
 public:
  size_t position = 0;
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    position = at;
    return false;
  }
};

Error wrong_type(const Json& value, const char* key, const char* expected, std::string_view where) {
  return Error{ErrorCode::kInvalidArgument, fmt::format("expected {}, found {}", expected, value.type_name()),
               fmt::format("{}/{}", where, key)};
}

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

template <class Document>
Result<Document> parse(std::string_view text, std::string_view where, const JsonLimits& limits) {
  ULLAGE_TRY_VOID(check_json_limits(text, where, limits));
  Document json = Document::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    ErrorFinder finder;
    Json::sax_parse(text, &finder);
    return Error{ErrorCode::kCorrupt, fmt::format("not valid JSON at byte {}", finder.position), std::string(where)};
  }
  return json;
}

}  // namespace

Result<void> check_json_limits(std::string_view text, std::string_view where, const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    return Error{ErrorCode::kTooLarge,
                 fmt::format("JSON of {} bytes is over the limit of {}", text.size(), limits.max_bytes),
                 std::string(where)};
  }
  // The parser takes a NUL for the end of the document, whatever follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return Error{ErrorCode::kCorrupt, fmt::format("not valid JSON at byte {}", nul), std::string(where)};
  }
  return check_shape(text, where, limits);
}

Result<Json> parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  return parse<Json>(text, where, limits);
}

Result<SortedJson> parse_sorted_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  return parse<SortedJson>(text, where, limits);
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<int64_t> get_int(const Json& object, const char* key, int64_t fallback, std::string_view where) {
  const Json* value = find(object, key);
  if (value == nullptr) return fallback;
  if (value->is_number_unsigned()) {
    const uint64_t n = value->get<uint64_t>();
    if (n > static_cast<uint64_t>(INT64_MAX)) return wrong_type(*value, key, "an integer below 2^63", where);
    return static_cast<int64_t>(n);
  }
  if (value->is_number_integer()) return value->get<int64_t>();
  if (value->is_number_float()) {
    const double d = value->get<double>();
    if (d == std::floor(d) && std::fabs(d) < 9.0e15) return static_cast<int64_t>(d);
  }
  return wrong_type(*value, key, "an integer", where);
}

Result<double> get_double(const Json& object, const char* key, double fallback, std::string_view where) {
  const Json* value = find(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) return wrong_type(*value, key, "a number", where);
  return value->get<double>();
}

Result<bool> get_bool(const Json& object, const char* key, bool fallback, std::string_view where) {
  const Json* value = find(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return wrong_type(*value, key, "true or false", where);
  return value->get<bool>();
}

Result<std::string> get_string(const Json& object, const char* key, std::string_view fallback, std::string_view where) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) return wrong_type(*value, key, "a string", where);
  return value->get<std::string>();
}

}  // namespace ullage
