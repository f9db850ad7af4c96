#include "ullage/text/utf8.h"

#include <cstring>

namespace ullage::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the run of ASCII bytes from `at`, eight at a time.
size_t ascii_run(std::string_view text, size_t at) {
  size_t end = at;
  while (end + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + end, 8);
    if (word & 0x8080808080808080u) break;
    end += 8;
  }
  while (end < text.size() && static_cast<uint8_t>(text[end]) < 0x80) ++end;
  return end - at;
}

}  // namespace

Utf8Char utf8_char_at(std::string_view text, size_t at) {
  using Kind = Utf8Char::Kind;
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) return {Kind::kValid, 1};
  // The well-formed ranges of Unicode 15, table 3-7: only the second byte's depends on the first.
  int length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Kind::kInvalid, 1};
  }
  for (int i = 1; i < length; ++i) {
    if (at + static_cast<size_t>(i) >= text.size()) return {Kind::kUnfinished, i};
    const auto byte = static_cast<uint8_t>(text[at + static_cast<size_t>(i)]);
    if (byte < low || byte > high) return {Kind::kInvalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::kValid, length};
}

bool is_valid_utf8(std::string_view text) {
  size_t at = ascii_run(text, 0);
  while (at < text.size()) {
    const Utf8Char c = utf8_char_at(text, at);
    if (c.kind != Utf8Char::Kind::kValid) return false;
    at += static_cast<size_t>(c.length);
    at += ascii_run(text, at);
  }
  return true;
}

std::string repair_utf8(std::string_view text, std::vector<TextRange>* ranges) {
  std::string out;
  out.reserve(text.size() + 16);
  // Where each repair began and ended in `text`, and where the text after it lies in `out`.
  struct Repair {
    size_t begin;
    size_t end;
    size_t out_end;
  };
  std::vector<Repair> repairs;
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Char c = utf8_char_at(text, at);
    const auto length = static_cast<size_t>(c.length);
    if (c.kind == Utf8Char::Kind::kValid) {
      out.append(text, at, length);
    } else {
      out.append(kReplacement);
      if (ranges) repairs.push_back({at, at + length, out.size()});
    }
    at += length;
  }
  if (!ranges || repairs.empty()) return out;
  const auto moved = [&](size_t bound) {
    // The last repair that begins before the bound.
    size_t low = 0;
    size_t high = repairs.size();
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (repairs[middle].begin < bound)
        low = middle + 1;
      else
        high = middle;
    }
    if (low == 0) return bound;
    const Repair& repair = repairs[low - 1];
    return bound <= repair.end ? repair.out_end : repair.out_end + (bound - repair.end);
  };
  for (TextRange& range : *ranges) range = {moved(range.begin), moved(range.end)};
  return out;
}

void append_utf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[at + i])); };
  const char32_t lead = byte(0);
  char32_t c = lead;
  size_t length = 1;
  if (lead >= 0xF0) {
    c = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    length = 4;
  } else if (lead >= 0xE0) {
    c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    length = 3;
  } else if (lead >= 0xC0) {
    c = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    length = 2;
  }
  at += length;
  return c;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace ullage::text
