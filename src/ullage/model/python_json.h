// JSON as Python writes it: json.dumps gives Infinity, -Infinity and NaN, which JSON does not have.
#pragma once

#include <string>
#include <string_view>

namespace ullage::model {

// The text with those three, outside strings, as 1e308, -1e308 and 0, each padded with spaces: every byte keeps its
// place.
std::string without_python_numbers(std::string_view text);

}  // namespace ullage::model
