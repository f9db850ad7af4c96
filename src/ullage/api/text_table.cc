#include "ullage/api/text_table.h"

#include <algorithm>

namespace ullage::api {

size_t display_width(const std::string& text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return width;
}

std::string TextTable::text(int indent) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    if (row.size() > widths.size()) widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - display_width(row[i]), ' ');
      const bool is_right = std::find(right_.begin(), right_.end(), i) != right_.end();
      line += (i > 0 ? "  " : "") + (is_right ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string wrap_text(const std::string& text, int width, int indent, const std::string& first) {
  const size_t limit = static_cast<size_t>(std::max(width, indent + 20));
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string out;
  std::string line = first.empty() ? margin : first;
  bool is_line_empty = true;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!is_line_empty && display_width(line) + 1 + display_width(word) > limit) {
      out += line + "\n";
      line = margin;
      is_line_empty = true;
    }
    line += (is_line_empty ? "" : " ") + word;
    is_line_empty = false;
    begin = end + 1;
  }
  return out + line + "\n";
}

}  // namespace ullage::api
