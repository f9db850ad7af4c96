#include "ullage/base/units.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include <fmt/format.h>

namespace ullage {
namespace {

struct Number {
  double value = 0;
  std::string_view suffix;
};

// Digits with at most one point. libc++ 19 has no from_chars for double, and wasi-libc's strtod knows no locale but C.
bool read_decimal(std::string_view digits, double* value) {
#if defined(__wasi__)
  const std::string text(digits);
  char* stop = nullptr;
  *value = std::strtod(text.c_str(), &stop);
  return stop == text.c_str() + text.size();
#else
  const auto [stop, status] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
  return status == std::errc() && stop == digits.data() + digits.size();
#endif
}

Result<Number> split_number(std::string_view text, std::string_view where, const char* example) {
  size_t end = 0;
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.')) ++end;
  Number number;
  if (end == 0 || !read_decimal(text.substr(0, end), &number.value)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("\"{}\" is not a number; write for example {}", text, example), std::string(where)};
  }
  while (end < text.size() && text[end] == ' ') ++end;
  number.suffix = text.substr(end);
  return number;
}

Result<int64_t> to_count(double value, std::string_view text, std::string_view where) {
  if (!(value < 9.2e18)) {
    return Error{ErrorCode::kTooLarge, fmt::format("\"{}\" is over 2^63", text), std::string(where)};
  }
  return static_cast<int64_t>(std::floor(value));
}

constexpr std::string_view kPrefixes = "KMGTPE";

// The power of the prefix letter in kPrefixes, from 1; 0 for another letter.
int prefix_power(char c) {
  const char letter = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  const size_t at = kPrefixes.find(letter);
  return at == std::string_view::npos ? 0 : static_cast<int>(at) + 1;
}

double power_of(double base, int power) {
  double scale = 1;
  for (int i = 0; i < power; ++i) scale *= base;
  return scale;
}

// Of a prefix: what a byte, a bit and their binary forms are worth; 0 for another word.
double bandwidth_scale(std::string_view unit) {
  if (!unit.ends_with("/s") && !unit.ends_with("bps") && !unit.ends_with("Bps")) return 0;
  unit.remove_suffix(2);
  const int power = unit.empty() ? 0 : prefix_power(unit[0]);
  if (power == 0) return unit == "B" ? 1 : 0;
  unit.remove_prefix(1);
  if (unit == "B") return power_of(1000, power);
  if (unit == "iB") return power_of(1024, power);
  if (unit == "b" || unit == "bit") return power_of(1000, power) / 8;
  return 0;
}

// 3.35e12 and "B/s" -> "3.35 TB/s".
std::string format_rate(double value, const char* unit) {
  size_t power = 0;
  while (value >= 999.95 && power < kPrefixes.size()) {
    value /= 1000;
    ++power;
  }
  const std::string prefix = power == 0 ? "" : std::string(1, kPrefixes[power - 1]);
  return fmt::format("{:.4g} {}{}", value, prefix, unit);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text, std::string_view where) {
  ULLAGE_TRY(const Number number, split_number(text, where, "16GiB, 1.5GB or 4096"));
  std::string_view suffix = number.suffix;
  double scale = 1;
  static constexpr std::string_view kLetters = "KMGTP";
  if (!suffix.empty() && suffix != "B" && suffix != "b") {
    const char letter = suffix[0] >= 'a' ? static_cast<char>(suffix[0] - 'a' + 'A') : suffix[0];
    const size_t power = kLetters.find(letter);
    const std::string_view rest = suffix.substr(1);
    const bool decimal = rest == "B" || rest == "b";
    if (power == std::string_view::npos || !(decimal || rest.empty() || rest == "iB" || rest == "ib" || rest == "i")) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("\"{}\" has an unknown unit \"{}\"; use KiB, MiB, GiB, TiB (2^10 ...) or KB, MB, GB, TB "
                               "(10^3 ...)",
                               text, suffix),
                   std::string(where)};
    }
    const double base = decimal ? 1000 : 1024;
    for (size_t i = 0; i <= power; ++i) scale *= base;
  }
  ULLAGE_TRY(const int64_t value, to_count(number.value * scale, text, where));
  return Bytes(value);
}

Result<int64_t> parse_count(std::string_view text, std::string_view where) {
  ULLAGE_TRY(const Number number, split_number(text, where, "8192 or 8k"));
  double scale = 1;
  if (number.suffix == "k")
    scale = 1e3;
  else if (number.suffix == "m")
    scale = 1e6;
  else if (number.suffix == "g")
    scale = 1e9;
  else if (number.suffix == "K")
    scale = 1024.0;
  else if (number.suffix == "M")
    scale = 1024.0 * 1024;
  else if (number.suffix == "G")
    scale = 1024.0 * 1024 * 1024;
  else if (!number.suffix.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("\"{}\" has an unknown suffix \"{}\"; use k, m (10^3, 10^6) or K, M (2^10, 2^20)", text,
                             number.suffix),
                 std::string(where)};
  }
  const double value = number.value * scale;
  if (value != std::floor(value)) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("\"{}\" is not a whole number", text), std::string(where)};
  }
  return to_count(value, text, where);
}

Result<double> parse_bandwidth(std::string_view text, std::string_view where) {
  ULLAGE_TRY(const Number number, split_number(text, where, "2.5TB/s or 900GB/s"));
  const double scale = bandwidth_scale(number.suffix);
  if (scale == 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("\"{}\" has {}; write GB/s, TB/s (10^9, 10^12 bytes), GiB/s, TiB/s (2^30, 2^40) or Gbit/s", text,
                    number.suffix.empty() ? "no unit" : fmt::format("an unknown unit \"{}\"", number.suffix)),
        std::string(where)};
  }
  if (!(number.value * scale < 1e21)) {
    return Error{ErrorCode::kTooLarge, fmt::format("\"{}\" is over 10^21 bytes a second", text), std::string(where)};
  }
  return number.value * scale;
}

Result<double> parse_flops(std::string_view text, std::string_view where) {
  ULLAGE_TRY(const Number number, split_number(text, where, "300T or 2 PFLOP/s"));
  std::string_view unit = number.suffix;
  const int power = unit.empty() ? 0 : prefix_power(unit[0]);
  if (power > 0) unit.remove_prefix(1);
  const bool is_known = unit.empty() || unit == "FLOPS" || unit == "FLOP/s" || unit == "flops" || unit == "flop/s" ||
                        unit == "OPS" || unit == "OP/s";
  if (power == 0 || !is_known) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("\"{}\" has {}; write G, T or P (10^9, 10^12, 10^15), with FLOPS or FLOP/s after it or "
                    "not",
                    text, number.suffix.empty() ? "no unit" : fmt::format("an unknown unit \"{}\"", number.suffix)),
        std::string(where)};
  }
  const double value = number.value * power_of(1000, power);
  if (!(value < 1e21)) {
    return Error{ErrorCode::kTooLarge, fmt::format("\"{}\" is over 10^21 operations a second", text),
                 std::string(where)};
  }
  return value;
}

std::string format_bandwidth(double bytes_per_second) { return format_rate(bytes_per_second, "B/s"); }

std::string format_flops(double flop_per_second) { return format_rate(flop_per_second, "FLOP/s"); }

std::string format_bytes(Bytes bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes.value < kKiB && bytes.value > -kKiB) return fmt::format("{} bytes", bytes.value);
  double value = static_cast<double>(bytes.value) / 1024;
  int unit = 0;
  while ((value >= 1024 || value <= -1024) && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string format_thousands(int64_t n) {
  std::string digits = fmt::format("{}", n);
  const int64_t first = digits[0] == '-' ? 1 : 0;
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > first; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

}  // namespace ullage
