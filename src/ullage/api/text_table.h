// Columns of text that line up, for people.
#pragma once

#include <string>
#include <vector>

namespace ullage::api {

// Rows of cells; each column as wide as its widest cell. The first column and those not in `right` are left-aligned.
// A row may have fewer cells than others.
class TextTable {
 public:
  explicit TextTable(std::vector<size_t> right_columns = {}) : right_(std::move(right_columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool is_empty() const { return rows_.empty(); }
  // Each line begins with `indent` spaces and ends with a newline; no spaces at its end.
  std::string text(int indent = 2) const;

 private:
  std::vector<size_t> right_;
  std::vector<std::vector<std::string>> rows_;
};

// Words broken into lines of at most `width` columns; every line begins with `indent` spaces, the first with `first`.
std::string wrap_text(const std::string& text, int width, int indent, const std::string& first = "");

// Columns that UTF-8 text takes: characters, not bytes.
size_t display_width(const std::string& text);

}  // namespace ullage::api
