// Quantities with a unit, and the one parser of sizes and counts that flags, files and requests share.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "ullage/base/result.h"

namespace ullage {

// A number of bytes. GiB is 2^30, GB is 10^9.
struct Bytes {
  int64_t value = 0;
  constexpr Bytes() = default;
  constexpr explicit Bytes(int64_t v) : value(v) {}
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.value + b.value); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.value - b.value); }
  friend constexpr Bytes operator*(Bytes a, int64_t n) { return Bytes(a.value * n); }
};

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// Time inside the engine: integer nanoseconds, from a Clock or from a virtual clock. Seconds as double only in reports.
using Nanos = int64_t;
inline constexpr Nanos kNanosPerSecond = 1'000'000'000;
constexpr double to_seconds(Nanos t) { return static_cast<double>(t) * 1e-9; }

// "1.5GiB", "16GB", "512MiB", "4096": bytes. K/M/G/T without "iB" or "B" are binary, as vLLM reads them.
// Negative, empty, overflowing or unknown input is an Error whose `where` is the given name.
Result<Bytes> parse_bytes(std::string_view text, std::string_view where);
// "8192", "8k" (8000), "8K" (8192), "1m", "1M": a count of things, as vLLM's human-readable integers.
Result<int64_t> parse_count(std::string_view text, std::string_view where);
// "2.5TB/s", "900GB/s", "800GiB/s": bytes a second; "400Gbit/s", "400Gb/s", "400Gbps": bits, divided by 8. A unit is
// needed: GB is 10^9, GiB 2^30.
Result<double> parse_bandwidth(std::string_view text, std::string_view where);
// "300T", "989.4TFLOPS", "2 PFLOP/s": operations a second, decimal. A unit is needed.
Result<double> parse_flops(std::string_view text, std::string_view where);
// "3.35 TB/s", "450 GB/s": decimal, at most four digits.
std::string format_bandwidth(double bytes_per_second);
// "989.4 TFLOP/s".
std::string format_flops(double flop_per_second);
// "1.50 GiB", "940 KiB", "12 bytes".
std::string format_bytes(Bytes bytes);
// 409600 -> "409,600".
std::string format_thousands(int64_t n);

// ceil(a / b) for a >= 0, b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace ullage
