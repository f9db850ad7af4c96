// UTF-8 as bytes: validity, repair, characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ullage/text/tokenizer.h"

namespace ullage::text {

// What stands at a place of a byte string.
struct Utf8Char {
  enum class Kind : uint8_t { kValid, kInvalid, kUnfinished };
  Kind kind = Kind::kValid;
  // Bytes of the character; or of the longest beginning of one (Unicode 15, 3.9: "maximal subpart"), which a repair
  // turns into one U+FFFD. kUnfinished: the text ended inside a character that is well formed so far.
  int length = 1;
};

// REQUIRES: at < text.size().
Utf8Char utf8_char_at(std::string_view text, size_t at);
bool is_valid_utf8(std::string_view text);

// Invalid sequences become U+FFFD, as Python's bytes.decode("utf-8", errors="replace") does.
// `ranges`, when given, are moved with the text; a bound inside a repaired sequence moves to the repair's end.
std::string repair_utf8(std::string_view text, std::vector<TextRange>* ranges = nullptr);

// Appends the code point. REQUIRES: a scalar value.
void append_utf8(char32_t code_point, std::string& out);
// The code point of the valid character at `at`, which is moved past it. REQUIRES: valid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at);
// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

}  // namespace ullage::text
