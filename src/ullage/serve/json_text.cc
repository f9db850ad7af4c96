#include "ullage/serve/json_text.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "ullage/serve/utf8.h"

namespace ullage::serve {
void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t copied = 0;  // text before it is in `out`
  size_t i = 0;
  const auto flush = [&] { out.append(text.data() + copied, i - copied); };
  while (i < text.size()) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      const size_t length = utf8_length(text, i);
      if (length > 0) {
        i += length;
        continue;
      }
      flush();
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      flush();
      out += '\\';
      out += static_cast<char>(c);
    } else if (c >= 0x20 && c != 0x7F) {
      ++i;
      continue;
    } else {
      flush();
      switch (c) {
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        default:
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
      }
    }
    copied = ++i;
  }
  flush();
  out += '"';
}

void append_json_float(std::string& out, float value) {
  if (!std::isfinite(value) || value < -9999.0F) value = -9999.0F;
  const size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

void append_json_int(std::string& out, int64_t value) { fmt::format_to(std::back_inserter(out), "{}", value); }

void append_json_ints(std::string& out, std::span<const TokenId> values) {
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append_json_int(out, values[i]);
  }
  out += ']';
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace ullage::serve
