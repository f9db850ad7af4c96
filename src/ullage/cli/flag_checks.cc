#include "ullage/cli/flag_checks.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/units.h"

namespace ullage::cli {
namespace {

// The whole text as a T; nothing when any of it is something else.
template <class T>
std::optional<T> read(const std::string& text) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// `check` returns what is wrong, or nothing.
CLI::Validator validator(std::string help, std::function<std::string(std::string&)> check) {
  return CLI::Validator(std::move(check), std::move(help));
}

std::string out_of_range(const std::string& text, int64_t low, int64_t high) {
  return fmt::format("is {}; give {} to {}", text, low, high);
}

std::string check_count(const std::string& text, int64_t low, int64_t high) {
  const Result<int64_t> count = parse_count(text, "");
  if (!count) return count.error().message;
  return *count < low || *count > high ? out_of_range(text, low, high) : "";
}

}  // namespace

CLI::Validator number_between(double low, double high, const std::string& help) {
  return validator(help, [low, high, help](std::string& text) -> std::string {
    const auto value = read<double>(text);
    if (value && std::isfinite(*value) && *value >= low && *value <= high) return "";
    return fmt::format("is \"{}\"; give a number {}", text, help);
  });
}

CLI::Validator integer_between(int64_t low, int64_t high) {
  return validator(fmt::format("{} to {}", low, high), [low, high](std::string& text) -> std::string {
    const auto value = read<int64_t>(text);
    if (value && *value >= low && *value <= high) return "";
    return fmt::format("is \"{}\"; give a whole number from {} to {}", text, low, high);
  });
}

CLI::Validator size_between(int64_t low, int64_t high) {
  return validator("", [low, high](std::string& text) -> std::string {
    const Result<Bytes> size = parse_bytes(text, "");
    if (!size) return size.error().message;
    if (size->value >= low && size->value <= high) return "";
    return fmt::format("is {}; give {} to {}", text, format_bytes(Bytes(low)), format_bytes(Bytes(high)));
  });
}

CLI::Validator count_between(int64_t low, int64_t high) {
  return validator("", [low, high](std::string& text) { return check_count(text, low, high); });
}

CLI::Validator count_or_auto(int64_t low, int64_t high) {
  return validator("", [low, high](std::string& text) -> std::string {
    return text == "auto" || text == "-1" ? "" : check_count(text, low, high);
  });
}

CLI::Validator seed_text() {
  return validator("", [](std::string& text) -> std::string {
    return read<uint64_t>(text) ? "" : fmt::format("is \"{}\"; give a whole number from 0 to 2^64 - 1", text);
  });
}

CLI::Validator metric_prefix() {
  return validator("", [](std::string& text) -> std::string {
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const bool is_letter = ullage::is_letter(c) || c == '_' || c == ':';
      if (is_letter || (i > 0 && c >= '0' && c <= '9')) continue;
      return fmt::format("is \"{}\"; give letters, digits, _ and : only, and no digit first", text);
    }
    return "";
  });
}

CLI::Validator header_text() {
  return validator("", [](std::string& text) -> std::string {
    for (const char c : text) {
      if (c < 0x20 || c > 0x7e) return "has characters that no HTTP header may hold; give printable ASCII";
    }
    return "";
  });
}

CLI::Validator plain_text() {
  return validator("", [](std::string& text) -> std::string {
    if (text.empty()) return "is empty; give some text";
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "has control characters in it";
    }
    return "";
  });
}

}  // namespace ullage::cli
