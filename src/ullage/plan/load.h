// Arrivals against capacity, and money.
#pragma once

#include <cstdint>

#include "ullage/plan/evaluate.h"

namespace ullage::plan {

// Little's law (Little 1961): arrivals a second x seconds each stays = requests inside. `ceiling` of them run at once.
Load load_of(double qps, double duration_seconds, int64_t ceiling_slots);

// From the price of all devices an hour and what they sustain. Input and output share a device's time as they use it:
// `prefill_share` of it is prompts' work.
Money money_of(double price_per_hour, double input_tokens_per_second, double output_tokens_per_second,
               double prefill_share, int64_t running);

// Requests of `tokens` each that `pool_tokens` hold: a boot line's tokens at one's own p95.
int64_t ceiling_at(double pool_tokens, double tokens);

// Token computations to write `answer_tokens` one after another: without a cache each step computes all before it
// again.
int64_t computations_without_cache(int64_t answer_tokens);

}  // namespace ullage::plan
