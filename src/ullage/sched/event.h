// What happened, as values. Everything that reports (statistics, Prometheus, SSE, lab, Perfetto, simulation report)
// reads events and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ullage/base/hash.h"
#include "ullage/base/ids.h"
#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/sched/request.h"
#include "ullage/sched/step.h"

namespace ullage::sched {

struct ArrivedEvent {
  int64_t num_prompt_tokens = 0;
};
struct RejectedEvent {  // never accepted: cannot fit, bad, or queue full
  Error error;
};
struct AdmittedEvent {            // left the waiting queue (again after a preemption)
  int64_t num_cached_tokens = 0;  // prompt tokens found in the prefix cache
  bool is_resumed = false;
  int64_t num_queried_tokens = 0;  // tokens looked up in the prefix cache
};
struct ChunkComputedEvent {
  int64_t first_position = 0;
  int64_t num_tokens = 0;
  bool is_prompt = false;  // wholly or partly prompt (or recomputed) tokens; false = one decode token
};
struct TokenEvent {
  SampledToken sampled;
  int64_t output_index = 0;  // 0 = the first output token
};
struct PreemptedEvent {
  int64_t num_computed_tokens = 0;  // lost, unless found in the prefix cache again
};
struct FinishedEvent {
  FinishReason reason = FinishReason::kStop;  // kStop or kLength
  TokenId stop_token = -1;                    // which token ended it; -1 = none (length, or a stop string)
  int64_t num_prompt_tokens = 0;
  int64_t num_output_tokens = 0;
  int64_t num_cached_tokens = 0;  // of the prompt, at first admission
};
struct CancelledEvent {
  int64_t num_output_tokens = 0;
};
struct BlockStoredEvent {  // a full block entered the prefix index
  BlockId block;
  Hash128 key;
  Hash128 parent_key;  // zero for a chain's first
};
struct BlockEvictedEvent {  // a cached block left the prefix index
  BlockId block;
  Hash128 key;
};
struct StepEvent {  // after every step, last
  int64_t step_index = 0;
  int64_t num_tokens = 0;
  int64_t num_prompt_tokens = 0;
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t num_blocks_used = 0;
  int64_t num_blocks_total = 0;  // usable: without the null block
  Nanos duration = 0;
};

struct Event {
  Nanos time = 0;
  RequestId request;  // 0 for block and step events
  std::variant<ArrivedEvent, RejectedEvent, AdmittedEvent, ChunkComputedEvent, TokenEvent, PreemptedEvent,
               FinishedEvent, CancelledEvent, BlockStoredEvent, BlockEvictedEvent, StepEvent>
      body;
};

}  // namespace ullage::sched
