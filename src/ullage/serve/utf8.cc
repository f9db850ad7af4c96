#include "ullage/serve/utf8.h"

namespace ullage::serve {

size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) -> unsigned { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0; };
  const auto is_tail = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  const unsigned c = byte(i);
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) return is_tail(i + 1) ? 2 : 0;
  if (c >= 0xE0 && c <= 0xEF) {
    if (!is_tail(i + 1) || !is_tail(i + 2)) return 0;
    const bool is_overlong = c == 0xE0 && byte(i + 1) < 0xA0;
    const bool is_surrogate = c == 0xED && byte(i + 1) > 0x9F;
    return is_overlong || is_surrogate ? 0 : 3;
  }
  if (c >= 0xF0 && c <= 0xF4) {
    if (!is_tail(i + 1) || !is_tail(i + 2) || !is_tail(i + 3)) return 0;
    const bool is_overlong = c == 0xF0 && byte(i + 1) < 0x90;
    const bool is_beyond = c == 0xF4 && byte(i + 1) > 0x8F;
    return is_overlong || is_beyond ? 0 : 4;
  }
  return 0;
}

bool is_valid_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const size_t length = utf8_length(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

}  // namespace ullage::serve
