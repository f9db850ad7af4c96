#include "ullage/text/byte_alphabet.h"

#include <array>

#include "ullage/text/utf8.h"

namespace ullage::text {
namespace {

constexpr int kNumChars = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, 256> char_of{};
  std::array<int16_t, kNumChars> byte_of{};  // -1 = not in the alphabet
};

constexpr bool spells_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte_of) byte = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int c = spells_itself(byte) ? byte : next++;
    alphabet.char_of[static_cast<size_t>(byte)] = static_cast<char32_t>(c);
    alphabet.byte_of[static_cast<size_t>(c)] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t char_of_byte(uint8_t byte) { return kAlphabet.char_of[byte]; }

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  if (!is_valid_utf8(spelling)) return std::nullopt;
  std::string bytes;
  for (size_t at = 0; at < spelling.size();) {
    const char32_t c = next_code_point(spelling, at);
    if (c >= kNumChars || kAlphabet.byte_of[c] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of[c]);
  }
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) append_utf8(char_of_byte(static_cast<uint8_t>(byte)), spelling);
  return spelling;
}

}  // namespace ullage::text
