#include "ullage/observe/log_text.h"

#include <algorithm>
#include <cmath>

#include "ullage/base/ascii.h"

namespace ullage::observe {
namespace {

double power_of_ten(int32_t n) {
  double power = 1;
  for (int32_t i = 0; i < n; ++i) power *= 10;
  return power;
}

// The unit that `text` begins with, in bytes; 0 when it is none.
int64_t unit_at(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  struct Unit {
    std::string_view name;
    int64_t bytes;
  };
  constexpr Unit kUnits[] = {{"GiB", kGiB}, {"GB", kGiB}, {"MiB", kMiB}, {"MB", kMiB}, {"KiB", kKiB}};
  for (const Unit& unit : kUnits) {
    if (text.substr(0, unit.name.size()) == unit.name) return unit.bytes;
  }
  return 0;
}

// Where the value of a field that begins at `begin` ends: at a comma or a closing bracket outside of brackets and
// quotes.
size_t value_end(std::string_view line, size_t begin) {
  int64_t depth = 0;
  char quote = 0;
  for (size_t i = begin; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (--depth < 0) return i;
    } else if (c == ',' && depth == 0) {
      return i;
    }
  }
  return line.size();
}

}  // namespace

bool is_word(char c) { return is_letter_or_digit(c) || c == '_'; }

std::string plain_text(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && !(text[i] >= '@' && text[i] <= '~')) ++i;
      continue;
    }
    plain += text[i] == '\r' ? ' ' : text[i];
  }
  return plain;
}

int64_t for_each_line(std::string_view text, const std::function<void(std::string_view, int64_t)>& visit) {
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end), ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return number;
}

double Decimal::value() const { return static_cast<double>(digits) / power_of_ten(decimals); }

std::optional<Decimal> parse_decimal(std::string_view text) {
  constexpr int64_t kMost = int64_t{100'000'000'000'000'000};
  Decimal decimal;
  size_t i = 0;
  const bool is_negative = !text.empty() && text[0] == '-';
  if (is_negative) ++i;
  const size_t first = i;
  bool is_fraction = false;
  for (; i < text.size(); ++i) {
    if (is_digit(text[i])) {
      if (decimal.digits >= kMost || decimal.decimals >= 15) return std::nullopt;
      decimal.digits = decimal.digits * 10 + (text[i] - '0');
      if (is_fraction) ++decimal.decimals;
    } else if (text[i] == ',' && !is_fraction && i + 3 < text.size() && i > first && is_digit(text[i + 1]) &&
               is_digit(text[i + 2]) && is_digit(text[i + 3]) && (i + 4 >= text.size() || !is_digit(text[i + 4]))) {
      continue;
    } else if (text[i] == '.' && !is_fraction && i > first && i + 1 < text.size() && is_digit(text[i + 1])) {
      is_fraction = true;
    } else {
      break;
    }
  }
  if (i == first) return std::nullopt;
  if (is_negative) decimal.digits = -decimal.digits;
  decimal.length = i;
  return decimal;
}

std::optional<std::string_view> after(std::string_view line, std::string_view marker) {
  const size_t at = line.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + marker.size());
  while (!rest.empty() && std::string_view(" =:('\"\t").find(rest.front()) != std::string_view::npos) {
    rest.remove_prefix(1);
  }
  return rest;
}

std::optional<double> number_after(std::string_view line, std::string_view marker) {
  const auto rest = after(line, marker);
  const auto decimal = rest ? parse_decimal(*rest) : std::nullopt;
  return decimal ? std::optional<double>(decimal->value()) : std::nullopt;
}

std::optional<int64_t> count_after(std::string_view line, std::string_view marker) {
  const auto rest = after(line, marker);
  const auto decimal = rest ? parse_decimal(*rest) : std::nullopt;
  return decimal && decimal->decimals == 0 ? std::optional<int64_t>(decimal->digits) : std::nullopt;
}

LoggedBytes to_bytes(const Decimal& decimal, int64_t unit, int64_t number) {
  const double step = static_cast<double>(unit) / power_of_ten(decimal.decimals);
  const double bytes = static_cast<double>(decimal.digits) * step;
  const double bounded = std::clamp(bytes, -9e18, 9e18);
  return LoggedBytes{Bytes(static_cast<int64_t>(bounded < 0 ? bounded - 0.5 : bounded + 0.5)),
                     Bytes(static_cast<int64_t>(step / 2)), number};
}

std::optional<LoggedBytes> bytes_after(std::string_view line, std::string_view marker, int64_t number) {
  const auto rest = after(line, marker);
  const auto decimal = rest ? parse_decimal(*rest) : std::nullopt;
  if (!decimal) return std::nullopt;
  const int64_t unit = unit_at(rest->substr(decimal->length));
  return unit > 0 ? std::optional<LoggedBytes>(to_bytes(*decimal, unit, number)) : std::nullopt;
}

std::optional<LoggedBytes> bytes_before(std::string_view line, std::string_view marker, int64_t number) {
  const size_t at = line.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  // Back over the unit and the space before it to the number's first character.
  size_t begin = at;
  while (begin > 0 && (is_word(line[begin - 1]) && !is_digit(line[begin - 1]))) --begin;
  while (begin > 0 && line[begin - 1] == ' ') --begin;
  while (begin > 0 && (is_digit(line[begin - 1]) || line[begin - 1] == '.' || line[begin - 1] == '-')) --begin;
  const auto decimal = parse_decimal(line.substr(begin, at - begin));
  if (!decimal) return std::nullopt;
  const int64_t unit = unit_at(line.substr(begin + decimal->length, at - begin - decimal->length));
  return unit > 0 ? std::optional<LoggedBytes>(to_bytes(*decimal, unit, number)) : std::nullopt;
}

std::optional<std::string_view> field(std::string_view line, std::string_view key) {
  for (size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at > 0 && (is_word(line[at - 1]) || line[at - 1] == '-' || line[at - 1] == '.')) continue;
    size_t i = at + key.size();
    if (i < line.size() && (line[i] == '\'' || line[i] == '"')) ++i;
    while (i < line.size() && line[i] == ' ') ++i;
    if (i >= line.size() || (line[i] != '=' && line[i] != ':')) continue;
    ++i;
    while (i < line.size() && line[i] == ' ') ++i;
    std::string_view value = line.substr(i, value_end(line, i) - i);
    while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
    if (value.size() >= 2 && (value.front() == '\'' || value.front() == '"') && value.back() == value.front()) {
      value = value.substr(1, value.size() - 2);
    }
    return value;
  }
  return std::nullopt;
}

std::optional<int64_t> count_field(std::string_view line, std::string_view key) {
  const auto value = field(line, key);
  const auto decimal = value ? parse_decimal(*value) : std::nullopt;
  return decimal && decimal->decimals == 0 ? std::optional<int64_t>(decimal->digits) : std::nullopt;
}

std::optional<double> number_field(std::string_view line, std::string_view key) {
  const auto value = field(line, key);
  const auto decimal = value ? parse_decimal(*value) : std::nullopt;
  return decimal ? std::optional<double>(decimal->value()) : std::nullopt;
}

std::optional<bool> bool_field(std::string_view line, std::string_view key) {
  const auto value = field(line, key);
  if (value && (*value == "True" || *value == "true")) return true;
  if (value && (*value == "False" || *value == "false")) return false;
  return std::nullopt;
}

std::optional<std::string> text_field(std::string_view line, std::string_view key) {
  const auto value = field(line, key);
  if (!value || value->empty() || *value == "None" || *value == "null") return std::nullopt;
  return std::string(value->substr(0, 512));
}

std::optional<std::string> dtype_field(std::string_view line) {
  std::optional<std::string> dtype = text_field(line, "dtype");
  if (dtype && dtype->starts_with("torch.")) dtype->erase(0, 6);
  return dtype;
}

}  // namespace ullage::observe
