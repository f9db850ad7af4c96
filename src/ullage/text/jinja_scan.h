// Looks into a chat template's Jinja text without running it: its string literals and its output expressions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ullage::text {

// One summand of {{ a + b + c }}.
struct JinjaItem {
  enum class Kind { kLiteral, kBos, kEos, kContent, kSystem, kOther };
  Kind kind = Kind::kOther;
  std::string text;         // kLiteral: unescaped; else the expression
  bool is_trimmed = false;  // | trim or .strip()
};

// {{ ... }}: its summands, and where it begins in the template.
struct JinjaOutput {
  size_t begin = 0;
  std::vector<JinjaItem> items;

  const JinjaItem* find(JinjaItem::Kind kind) const;
};

struct JinjaLiteral {
  size_t begin = 0;
  std::string text;
};

struct JinjaScan {
  std::vector<JinjaOutput> outputs;
  std::vector<JinjaLiteral> literals;  // every quoted string inside {{ }} and {% %}, unescaped
};

// Never fails: what it cannot read is left out. Linear time.
JinjaScan scan_jinja(std::string_view text);

}  // namespace ullage::text
