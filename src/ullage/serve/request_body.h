// A JSON object with the checks that every request field needs. Include from .cc files only (JSON is heavy).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/json.h"
#include "ullage/base/result.h"
#include "ullage/serve/openai_request.h"

namespace ullage::serve {

// An Error about the field `where`.
Error bad_field(std::string_view where, std::string message);
Error unsupported_field(std::string_view where, std::string_view hint = "");

// The body as a JSON object; refuses what is not UTF-8, not JSON, too deep, too wide, or not an object.
Result<Json> parse_request_body(std::string_view body, const RequestLimits& limits);

// A value read and range-checked; null and absent are both "silent". `path` is the field's name in errors.
template <class T>
struct Range {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};
Result<std::optional<int64_t>> read_int(const Json& object, const char* key, Range<int64_t> range = {});
Result<std::optional<double>> read_double(const Json& object, const char* key, Range<double> range = {});
Result<std::optional<bool>> read_bool(const Json& object, const char* key);
Result<std::optional<std::string>> read_string(const Json& object, const char* key);
// A list of token ids (any int32 >= 0; whether the model has them is not known here).
Result<std::vector<TokenId>> read_token_list(const Json& value, std::string_view where);
// The member, or nullptr when absent or null.
const Json* find_member(const Json& object, const char* key);
// "a string", "an integer", ...: how errors call a value's type.
const char* type_name(const Json& value);

}  // namespace ullage::serve
