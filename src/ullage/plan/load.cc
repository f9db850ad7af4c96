#include "ullage/plan/load.h"

#include <limits>

namespace ullage::plan {

Load load_of(double qps, double duration_seconds, int64_t ceiling_slots) {
  Load out;
  out.needed_slots = qps * duration_seconds;
  out.ceiling_slots = ceiling_slots;
  const auto ceiling = static_cast<double>(ceiling_slots);
  out.fits = out.needed_slots <= ceiling;
  out.idle_slots = out.fits ? static_cast<int64_t>(ceiling - out.needed_slots) : 0;
  out.max_qps = duration_seconds > 0 ? ceiling / duration_seconds : 0;
  out.load = ceiling_slots > 0 ? out.needed_slots / ceiling : 0;
  return out;
}

Money money_of(double price_per_hour, double input_tokens_per_second, double output_tokens_per_second,
               double prefill_share, int64_t running) {
  constexpr double kSecondsPerHour = 3600;
  constexpr double kMillion = 1e6;
  Money out;
  const double per_second = price_per_hour / kSecondsPerHour;
  if (input_tokens_per_second > 0) {
    out.per_million_input = per_second * prefill_share / input_tokens_per_second * kMillion;
  }
  if (output_tokens_per_second > 0) {
    out.per_million_output = per_second * (1 - prefill_share) / output_tokens_per_second * kMillion;
  }
  if (out.per_million_input > 0) out.output_over_input = out.per_million_output / out.per_million_input;
  if (running > 0) out.per_user_hour = price_per_hour / static_cast<double>(running);
  return out;
}

int64_t ceiling_at(double pool_tokens, double tokens) {
  if (!(tokens > 0) || !(pool_tokens > 0)) return 0;
  const double requests = pool_tokens / tokens;
  return requests < 9e18 ? static_cast<int64_t>(requests) : std::numeric_limits<int64_t>::max();
}

int64_t computations_without_cache(int64_t answer_tokens) {
  // Whichever of the two factors is even is halved first, so that the product alone must fit.
  return answer_tokens % 2 == 0 ? answer_tokens / 2 * (answer_tokens + 1) : answer_tokens * ((answer_tokens + 1) / 2);
}

}  // namespace ullage::plan
