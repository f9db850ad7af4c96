#include "ullage/hardware/measure.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace ullage::hardware {
namespace {

constexpr int64_t kMaxCalls = int64_t{1} << 24;  // a clock that stands still must not hold us for ever

// Seconds that `calls` calls took; nullopt when stopped.
std::optional<double> time_calls(const Clock& clock, int64_t calls, const std::function<void()>& work,
                                 const std::function<bool()>& is_stopped) {
  const Nanos started = clock.now();
  for (int64_t i = 0; i < calls; ++i) {
    if (is_stopped()) return std::nullopt;
    work();
  }
  return to_seconds(clock.now() - started);
}

}  // namespace

Result<Rate> measure_rate(const Clock& clock, const MeasureOptions& options, double units_a_call,
                          const std::function<void()>& work, const std::function<bool()>& is_stopped) {
  const Error stopped{ErrorCode::kUnavailable, "stopped before it was done", "measurement"};
  if (options.num_rounds < 1 || options.num_rounds > 1000) {
    return Error{ErrorCode::kInvalidArgument, "expected 1 to 1000 rounds", "num_rounds"};
  }
  int64_t calls = 1;
  while (true) {
    const std::optional<double> seconds = time_calls(clock, calls, work, is_stopped);
    if (!seconds) return stopped;
    if (*seconds >= to_seconds(options.min_round)) break;
    if (calls >= kMaxCalls) {
      return Error{ErrorCode::kInternal, "the clock hardly moves; nothing can be measured with it", "clock"};
    }
    calls *= 2;
  }
  std::vector<double> rates;
  rates.reserve(static_cast<size_t>(options.num_rounds));
  for (int64_t round = 0; round < options.num_rounds; ++round) {
    const std::optional<double> seconds = time_calls(clock, calls, work, is_stopped);
    if (!seconds) return stopped;
    if (*seconds > 0) rates.push_back(units_a_call * static_cast<double>(calls) / *seconds);
  }
  if (rates.empty()) return Error{ErrorCode::kInternal, "the clock stood still", "clock"};
  std::sort(rates.begin(), rates.end());
  const size_t middle = rates.size() / 2;
  const double median = rates.size() % 2 == 1 ? rates[middle] : (rates[middle - 1] + rates[middle]) / 2;
  return Rate{median, rates.front(), rates.back(), static_cast<int64_t>(rates.size())};
}

}  // namespace ullage::hardware
