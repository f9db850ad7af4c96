// Writes JSON by hand where a token's chunk is made: building a document for each would cost more than the token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ullage/base/ids.h"

namespace ullage::serve {

// Appends `text` as a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);
// Appends the number in the shortest form that reads back the same. Not a number and infinities (which JSON has not)
// become -9999.0, as OpenAI writes an impossible token's logprob.
void append_json_float(std::string& out, float value);
void append_json_int(std::string& out, int64_t value);
// "[1,2,3]"
void append_json_ints(std::string& out, std::span<const TokenId> values);

// Number of Unicode characters of well-formed UTF-8.
int64_t count_characters(std::string_view text);

}  // namespace ullage::serve
