// The contract between scheduler and executor: what a step computes, and what comes back. An executor knows nothing
// else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/units.h"
#include "ullage/sched/request.h"

namespace ullage::sched {

// The blocks that hold a request's keys and values in one layer group, in order of position: the token at position p is
// in slot p % block_size of block_table[p / block_size].
using BlockTable = std::span<const BlockId>;

// One request's share of a step: its tokens at positions [first_position, first_position + num_tokens) are computed.
// Views live until the plan is committed. Within a step, a request may read blocks that another request of the same
// step writes (a prefix hit on tokens being computed): in each layer all keys and values are written before any is
// read.
struct ScheduledRequest {
  RequestId id;
  int64_t first_position = 0;
  int64_t num_tokens = 0;
  bool is_sampled = false;  // the last of them gives a new token
  int64_t num_prompt_tokens = 0;
  std::span<const TokenId> tokens;           // all known: prompt, then output; [>= first_position + num_tokens]
  std::span<const BlockTable> block_tables;  // [num_groups]
  const SamplingParams* sampling = nullptr;
  const StopParams* stop = nullptr;  // min_tokens forbids its tokens to the sampler
};

// The first num_tokens slots of `source` are copied to `destination`, in every layer, after the step's own keys and
// values are written there and before any attention of that layer: a partly filled block shared on write, or a partial
// prefix hit.
struct BlockCopy {
  BlockId source;
  BlockId destination;
  int64_t num_tokens = 0;
};

struct StepPlan {
  int64_t step_index = 0;
  int64_t num_tokens = 0;                  // sum over requests
  std::vector<ScheduledRequest> requests;  // running order
  std::vector<RequestId> preempted;        // in this step, in order
  std::vector<BlockCopy> copies;           // sources are not destinations of the same step
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct SampledToken {
  RequestId id;
  TokenId token = 0;
  float logprob = 0;              // of `token`; set when num_logprobs >= 0
  int32_t rank = 0;               // 1 = most likely; set when num_logprobs >= 0
  std::vector<TokenLogprob> top;  // [num_logprobs], most likely first
};

struct StepResult {
  std::vector<SampledToken> tokens;  // one for each sampled request, in the plan's order
  Nanos duration = 0;
};

}  // namespace ullage::sched
