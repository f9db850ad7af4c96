#include "ullage/text/jinja_scan.h"

namespace ullage::text {
namespace {

std::string_view trim(std::string_view s) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

// The end of the quoted string that begins at `at`, past its closing quote; text.size() when it never closes.
size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == quote)
      return i + 1;
  }
  return text.size();
}

std::string unescape(std::string_view quoted) {
  std::string out;
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    char c = quoted[i];
    if (c == '\\' && i + 2 < quoted.size()) {
      c = quoted[++i];
      if (c == 'n')
        c = '\n';
      else if (c == 't')
        c = '\t';
      else if (c == 'r')
        c = '\r';
      else if (c != '\\' && c != '\'' && c != '"')
        out += '\\';
    }
    out += c;
  }
  return out;
}

JinjaItem read_item(std::string_view expression) {
  using Kind = JinjaItem::Kind;
  expression = trim(expression);
  JinjaItem item{Kind::kOther, std::string(expression)};
  if (expression.empty()) return item;
  if ((expression[0] == '\'' || expression[0] == '"') && end_of_string(expression, 0) == expression.size()) {
    return {Kind::kLiteral, unescape(expression)};
  }
  const auto has = [&](std::string_view word) { return expression.find(word) != std::string_view::npos; };
  item.is_trimmed = has("|trim") || has("| trim") || has(".strip()");
  if (expression == "bos_token")
    item.kind = Kind::kBos;
  else if (expression == "eos_token")
    item.kind = Kind::kEos;
  else if (has("system_message"))
    item.kind = Kind::kSystem;
  else if (has("content"))
    item.kind = Kind::kContent;
  return item;
}

}  // namespace

const JinjaItem* JinjaOutput::find(JinjaItem::Kind kind) const {
  for (const JinjaItem& item : items) {
    if (item.kind == kind) return &item;
  }
  return nullptr;
}

JinjaScan scan_jinja(std::string_view text) {
  JinjaScan scan;
  for (size_t at = 0; at + 1 < text.size();) {
    const bool is_output = text[at] == '{' && text[at + 1] == '{';
    const bool is_statement = text[at] == '{' && text[at + 1] == '%';
    if (text[at] == '{' && text[at + 1] == '#') {
      const size_t end = text.find("#}", at + 2);
      if (end == std::string_view::npos) break;
      at = end + 2;
      continue;
    }
    if (!is_output && !is_statement) {
      ++at;
      continue;
    }
    JinjaOutput output{at, {}};
    size_t i = at + 2;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    size_t begin = i;  // of the summand
    int depth = 0;
    bool is_closed = false;
    while (i < text.size() && !is_closed) {
      const char c = text[i];
      const char next = i + 1 < text.size() ? text[i + 1] : '\0';
      if (c == '\'' || c == '"') {
        const size_t end = end_of_string(text, i);
        scan.literals.push_back({i, unescape(text.substr(i, end - i))});
        i = end;
        continue;
      }
      if (depth <= 0 && next == '}' && c == (is_output ? '}' : '%')) is_closed = true;
      if (is_closed || (c == '+' && depth == 0)) {
        std::string_view summand = text.substr(begin, i - begin);
        if (is_closed && summand.ends_with('-')) summand.remove_suffix(1);
        output.items.push_back(read_item(summand));
        begin = i + 1;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth;
      } else if (c == ')' || c == ']' || c == '}') {
        --depth;
      }
      i += is_closed ? 2 : 1;
    }
    if (is_output && is_closed) scan.outputs.push_back(std::move(output));
    at = i;
  }
  return scan;
}

}  // namespace ullage::text
