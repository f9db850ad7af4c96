// The steady state of an engine that serves a constant number of clients: what a request sees, from the prices of the
// steps it shares. (A closed loop: as one request ends, the next arrives.)
#pragma once

#include <cstdint>

#include "ullage/cost/efficiency.h"
#include "ullage/cost/step_cost.h"

namespace ullage::cost {

struct ServingPoint {
  double concurrency = 1;  // requests in flight, of one data-parallel replica
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  double max_running = 0;                 // that memory and max_num_seqs allow; 0 = all
  int64_t max_num_batched_tokens = 8192;  // of a step; longer prompts come in chunks
};

struct ServingTimes {
  double tpot_seconds = 0;  // between tokens of one request, prompts of others included
  double ttft_seconds = 0;  // from arrival to the first token, queueing included
  double running = 0;
  StepCost decode;             // a step of decodes alone
  double prefill_seconds = 0;  // what one prompt adds to the steps that carry it
};

// REQUIRES: concurrency above 0, prompt_tokens and output_tokens at least 1.
ServingTimes serving_times(const StepCostModel& model, const ServingPoint& point, double ttft_overhead = 0,
                           double ttft_wave = 0);

}  // namespace ullage::cost
