// Measuring a rate: rounds of work by an injected clock, the median and the spread.
#pragma once

#include <cstdint>
#include <functional>

#include "ullage/base/clock.h"
#include "ullage/base/result.h"

namespace ullage::hardware {

struct MeasureOptions {
  int64_t num_rounds = 7;         // 1 to 1000
  Nanos min_round = 100'000'000;  // a round repeats the work until it takes this long at least
};

// Units a second. The median is told; lowest and highest show how quiet the machine was.
struct Rate {
  double median = 0;
  double lowest = 0;
  double highest = 0;
  int64_t num_rounds = 0;
};

// Calls work() once to warm up, as often as fills a round, then in rounds. `is_stopped` is asked between calls: true
// ends the measurement with kUnavailable.
Result<Rate> measure_rate(const Clock& clock, const MeasureOptions& options, double units_a_call,
                          const std::function<void()>& work, const std::function<bool()>& is_stopped);

}  // namespace ullage::hardware
