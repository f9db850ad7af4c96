// The byte-level alphabet of GPT-2: each byte is spelled in a vocabulary as one printable character.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ullage::text {

// Printable ASCII, and U+00A1 to U+00FF but the soft hyphen, spell themselves; the other 68 bytes, in order, are
// spelled U+0100 and up (Radford et al. 2019, GPT-2's bytes_to_unicode).
char32_t char_of_byte(uint8_t byte);
// The bytes that a vocabulary entry spells; nothing when it has a character outside the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);
// The other way round.
std::string spelling_of_bytes(std::string_view bytes);

}  // namespace ullage::text
