// The one JSON reader and writer. Include it from .cc files only: nlohmann/json is heavy. Headers name the type with
// base/json_fwd.h.
//
// Reading never throws: depth, size and syntax are checked here, so that hostile files and bodies end in an Error.
// Writing keeps the order in which keys were added (ordered_json), and gives the same bytes on every platform.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "ullage/base/json_fwd.h"
#include "ullage/base/result.h"

namespace ullage {

using Json = nlohmann::ordered_json;
// Objects as sorted maps. For files with objects of many keys (a vocabulary, a weight map): Json keeps an object as a
// list, where adding n keys costs n^2 comparisons.
using SortedJson = nlohmann::json;

struct JsonLimits {
  int64_t max_bytes = int64_t{256} << 20;
  int64_t max_values = std::numeric_limits<int64_t>::max();  // of the whole document; an empty container counts twice
  int max_depth = 64;  // nlohmann's dump() recurses; see the libraries' notes in ARCHITECTURE.md
};

// Parses one JSON document. The Error has code kCorrupt and names the byte offset; `where` is its place.
Result<Json> parse_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});
Result<SortedJson> parse_sorted_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});
// The checks of size, depth and NUL bytes that come before any parse, for readers that bring their own SAX handler.
Result<void> check_json_limits(std::string_view text, std::string_view where, const JsonLimits& limits = {});
// Compact text; invalid UTF-8 inside strings is replaced by U+FFFD rather than refused.
std::string dump_json(const Json& json, int indent = -1);

// Typed look-ups in an object. A missing key, or null, gives `fallback`; another type is an Error at "where/key".
// Integers are accepted from floats that are whole numbers (some exporters write 4096.0).
Result<int64_t> get_int(const Json& object, const char* key, int64_t fallback, std::string_view where);
Result<double> get_double(const Json& object, const char* key, double fallback, std::string_view where);
Result<bool> get_bool(const Json& object, const char* key, bool fallback, std::string_view where);
Result<std::string> get_string(const Json& object, const char* key, std::string_view fallback, std::string_view where);

}  // namespace ullage
