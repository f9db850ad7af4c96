// The loop: arrivals -> Scheduler.plan -> Executor -> Scheduler.commit -> events. Synchronous and single-threaded;
// engine_thread.h gives it a thread and queues.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ullage/base/clock.h"
#include "ullage/base/result.h"
#include "ullage/engine/executor.h"
#include "ullage/sched/event.h"
#include "ullage/sched/request.h"

namespace ullage::engine {

class DecisionLog;

struct EngineOptions {
  int64_t block_size = 16;                // tokens
  int64_t num_blocks = 0;                 // the pool, the null block included; >= 2
  int64_t max_model_len = 0;              // tokens, prompt and output together; >= 2
  int64_t max_num_seqs = 128;             // requests in a step
  int64_t max_num_batched_tokens = 2048;  // tokens in a step
  int64_t max_queue_len = 1024;           // waiting requests; one more is kUnavailable
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  bool enable_partial_prefix_hits = false;  // reuse part of a block by copying it; false = whole blocks, as vLLM
  bool is_priority_policy = false;          // false = first come, first served
  bool is_paranoid = false;                 // check every invariant after every step (tests, --paranoid)
};

// The first option that is out of range, and the range.
Result<void> validate(const EngineOptions& options);

// Receives each step's events, in order, on the engine's thread. Must not block for long nor call the engine.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_events(std::span<const sched::Event> events) = 0;
};

// One owner thread. Neither executor, clock nor sinks are owned; they outlive the engine.
class Engine {
 public:
  // REQUIRES: validate(options).
  Engine(const EngineOptions& options, Executor& executor, Clock& clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Register before the first step.
  void add_sink(EventSink& sink);
  // Every step's decisions go to `log` (not owned; nullptr = none).
  void set_decision_log(DecisionLog* log);

  // Takes the request into the waiting queue, or says why never (kTooLarge with the numbers, kInvalidArgument) or why
  // not now (kUnavailable). A refusal emits RejectedEvent, too.
  Result<void> add_request(sched::RequestParams params);
  // Ends a request early: blocks are free when this returns. False when the id is not live (already ended: harmless).
  // `finish` is for the caller's own end (a stop string; FinishedEvent), `cancel` for a lost client (CancelledEvent).
  bool cancel(RequestId id);
  bool finish(RequestId id, sched::FinishReason reason);
  // Cancels every live request, running ones first; what is cached stays.
  void cancel_all();
  // Runs one step. False when there is nothing to do. After an executor's Error every live request has been cancelled,
  // and the Error is returned from this and every later call.
  Result<bool> step();

  bool has_work() const;
  int64_t num_running() const;
  int64_t num_waiting() const;
  int64_t num_free_blocks() const;    // free or cached-idle
  int64_t num_usable_blocks() const;  // num_blocks without the null block
  // Forgets every cached prefix; false while any block is in use.
  bool reset_prefix_cache();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ullage::engine
