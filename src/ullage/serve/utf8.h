// Well-formedness of UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace ullage::serve {

// Bytes of the well-formed character at `i` (no surrogates, no overlong forms, at most U+10FFFF); 0 when there is none.
// REQUIRES: i < text.size().
size_t utf8_length(std::string_view text, size_t i);
bool is_valid_utf8(std::string_view text);

}  // namespace ullage::serve
