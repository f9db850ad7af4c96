// Makes requests, tokens and results for scheduler tests.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ullage/sched/scheduler.h"

namespace ullage::test {

inline sched::RequestParams make_request(int64_t id, std::vector<TokenId> prompt, int64_t max_tokens,
                                         int64_t priority = 0, Nanos arrival = 0) {
  sched::RequestParams params;
  params.id = RequestId(id);
  params.prompt = std::move(prompt);
  params.stop.max_tokens = max_tokens;
  params.priority = priority;
  params.arrival = arrival;
  return params;
}

// first, first + 1, ...
inline std::vector<TokenId> token_range(int64_t num_tokens, TokenId first = 0) {
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < num_tokens; ++i) tokens.push_back(first + static_cast<TokenId>(i));
  return tokens;
}

inline sched::SampledToken make_token(RequestId id, TokenId token) {
  sched::SampledToken sampled;
  sampled.id = id;
  sampled.token = token;
  return sampled;
}

// The same token for every sampled request of the plan.
inline sched::StepResult make_result(const sched::StepPlan& plan, TokenId token) {
  sched::StepResult result;
  for (const sched::ScheduledRequest& r : plan.requests)
    if (r.is_sampled) result.tokens.push_back(make_token(r.id, token));
  return result;
}

}  // namespace ullage::test
