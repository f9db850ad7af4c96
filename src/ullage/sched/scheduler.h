// The scheduler: which requests compute how many tokens in the next step, and what the step's tokens end.
//
// Decisions are those of vLLM V1's synchronous scheduler: one token budget for prefill chunks and decodes, running
// requests first, then waiting ones (none in a step that preempted), preemption by recomputation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ullage/base/hash.h"
#include "ullage/base/result.h"
#include "ullage/cache/kv_cache.h"
#include "ullage/sched/event.h"
#include "ullage/sched/request.h"
#include "ullage/sched/step.h"

namespace ullage::sched {

struct SchedulerOptions {
  int64_t num_blocks = 0;                 // the pool, the null block included; >= 2
  int64_t block_size = 16;                // tokens; >= 1
  int64_t max_model_len = 0;              // tokens, prompt and output together; >= 2
  int64_t max_num_seqs = 128;             // requests running at once; >= 1
  int64_t max_num_batched_tokens = 2048;  // tokens in a step; >= 1
  int64_t max_queue_len = 1024;           // waiting requests; one more is refused as kUnavailable; >= 1
  bool enable_prefix_caching = true;
  bool enable_partial_prefix_hits = false;  // see cache::PrefixHit
  // Off: a prompt is computed in one step or waits; prompts over max_num_batched_tokens are refused. A preempted
  // request that has outgrown the budget is still recomputed in chunks: waiting for ever is worse.
  bool enable_chunked_prefill = true;
  bool is_priority_policy = false;             // false = first come, first served
  bool reserve_full_prompt = true;             // admit only when all known tokens fit, not just the first chunk
  int64_t long_prefill_token_threshold = 0;    // most tokens of one request in a step; 0 = no such limit
  double watermark = 0.0;                      // share of the pool left free at admission while requests run; [0, 1)
  cache::KeyFunction key_function = &hash128;  // of the prefix index; tests inject poor ones
};

// The first option that is out of range, and the range.
Result<void> validate(const SchedulerOptions& options);

// One owner thread. Per step: O(scheduled requests + their new blocks); no heap allocation in steady state.
// Calls go: add/cancel/finish*, plan, commit, add/cancel/finish*, plan, ... Each appends what happened to `events`.
class Scheduler {
 public:
  // REQUIRES: validate(options).
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Takes the request into the waiting queue (ArrivedEvent), or refuses it (RejectedEvent, and the Error returned):
  //   kInvalidArgument: empty prompt, a live id, max_tokens < 1, min_tokens not in [0, max_tokens];
  //   kTooLarge: the prompt leaves no room for a token within max_model_len, or its longest outcome, min(prompt +
  //     max_tokens, max_model_len) - 1 cached tokens (the last one is never computed), exceeds the pool; the numbers
  //     are in the message. So whatever is accepted can run alone, and ends (invariant 3);
  //   kUnavailable: max_queue_len requests are waiting.
  Result<void> add(RequestParams params, Nanos now, std::vector<Event>& events);
  // Ends a live request: its blocks are free when this returns. False when the id is not live.
  // CHECKs that no plan is outstanding. cancel emits CancelledEvent, finish FinishedEvent (stop_token -1).
  bool cancel(RequestId id, Nanos now, std::vector<Event>& events);
  bool finish(RequestId id, FinishReason reason, Nanos now, std::vector<Event>& events);
  // Cancels every live request, in order of id, and forgets every prefix. Also while a plan is outstanding (it is
  // dropped): for an executor that failed.
  void cancel_all(Nanos now, std::vector<Event>& events);

  // Decides the next step. The plan and its views are valid until commit. A plan may have no requests though there is
  // work (all it did was preempt): nothing to execute then, but commit(an empty result) must follow all the same.
  const StepPlan& plan(Nanos now, std::vector<Event>& events);
  // Takes the step's tokens in and ends the requests they end, in the plan's order. StepEvent comes last.
  // REQUIRES: result.tokens are those of the plan's sampled requests, in the plan's order.
  void commit(const StepResult& result, Nanos now, std::vector<Event>& events);

  // Forgets every cached prefix; false while any block is in use.
  bool reset_prefix_cache(Nanos now, std::vector<Event>& events);

  bool has_work() const { return num_running() + num_waiting() > 0; }
  bool is_plan_outstanding() const;
  bool is_live(RequestId id) const;
  int64_t num_running() const;
  int64_t num_waiting() const;
  int64_t num_free_blocks() const;    // free or cached-idle
  int64_t num_usable_blocks() const;  // num_blocks without the null block
  // In queue order; appended. For logs, debug routes and tests.
  void running_ids(std::vector<RequestId>& ids) const;
  void waiting_ids(std::vector<RequestId>& ids) const;
  // Leading blocks of a live request that every request with blocks has, too.
  int64_t num_common_prefix_blocks(RequestId id) const;
  const SchedulerOptions& options() const;
  const cache::KvCache& kv_cache() const;

  // Stops the program if an invariant is broken. O(pool + requests).
  void check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ullage::sched
