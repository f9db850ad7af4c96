// Finding values in log lines: what stands after or before known words, and key=value fields. Inside observe/. Hostile
// text is fine: nothing here throws, recurses or takes more than one pass a call.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ullage/observe/startup_log.h"

namespace ullage::observe {

// Without colour codes; carriage returns, by which progress bars overwrite themselves, become spaces.
std::string plain_text(std::string_view text);

// A character of a name: a letter, a digit or '_'.
bool is_word(char c);

// Calls `visit(line, number)` for each line, numbers from 1. Returns how many there were.
int64_t for_each_line(std::string_view text, const std::function<void(std::string_view, int64_t)>& visit);

// A number as printed: 12.20 is 1220 with 2 decimals. Thousands may be separated by commas.
struct Decimal {
  int64_t digits = 0;
  int32_t decimals = 0;
  size_t length = 0;  // characters
  double value() const;
};
std::optional<Decimal> parse_decimal(std::string_view text);

// What follows `marker`, without the spaces, '=', ':', '(' and quotes between; none when the line lacks it.
std::optional<std::string_view> after(std::string_view line, std::string_view marker);
std::optional<double> number_after(std::string_view line, std::string_view marker);
std::optional<int64_t> count_after(std::string_view line, std::string_view marker);
// "12.20 GiB", "44.39GiB", "1152.00 MiB". "GB" is read as GiB: both SGLang and vLLM divide by 2^30 where they print it.
std::optional<LoggedBytes> bytes_after(std::string_view line, std::string_view marker, int64_t number);
// "56.93 GiB for weight": the bytes that end where `marker` begins.
std::optional<LoggedBytes> bytes_before(std::string_view line, std::string_view marker, int64_t number);
LoggedBytes to_bytes(const Decimal& decimal, int64_t unit, int64_t number);

// The value of key=value, key: value or 'key': value in lists of them, brackets and quotes respected; quotes are taken
// off. None when the key is not there.
std::optional<std::string_view> field(std::string_view line, std::string_view key);
std::optional<int64_t> count_field(std::string_view line, std::string_view key);
std::optional<double> number_field(std::string_view line, std::string_view key);
std::optional<bool> bool_field(std::string_view line, std::string_view key);
// A field that is there and not None, null or empty.
std::optional<std::string> text_field(std::string_view line, std::string_view key);

// The field "dtype" without PyTorch's prefix: "bfloat16".
std::optional<std::string> dtype_field(std::string_view line);

inline bool contains(std::string_view line, std::string_view word) { return line.find(word) != std::string_view::npos; }

// Keeps the first value of several.
template <class T, class V>
void set_once(std::optional<Logged<T>>& slot, const std::optional<V>& value, int64_t number) {
  if (value.has_value() && !slot.has_value()) slot = Logged<T>{T(*value), number};
}
inline void set_once(std::optional<LoggedBytes>& slot, const std::optional<LoggedBytes>& value) {
  if (value.has_value() && !slot.has_value()) slot = value;
}

// One line of a start, by engine: fills in what it says; true when it is one that only this engine's start prints.
bool read_vllm_line(std::string_view line, int64_t number, StartupLog& log);
bool read_sglang_line(std::string_view line, int64_t number, StartupLog& log);
bool read_llama_line(std::string_view line, int64_t number, StartupLog& log);

}  // namespace ullage::observe
