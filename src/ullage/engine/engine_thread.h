// Gives an Engine its owner thread. Other threads send commands through a bounded queue; events come back to a sink on
// the engine's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ullage/engine/engine.h"

namespace ullage::engine {

// The public functions may be called from any thread, stop() and drain() not from the engine's own (a sink, a posted
// call). The sinks were added to the engine before.
class EngineThread {
 public:
  // Starts the thread; the engine belongs to it until stop() returns. `max_commands`: commands that may wait.
  explicit EngineThread(Engine& engine, int64_t max_commands = 4096);
  ~EngineThread();  // stop()

  // Sends the request to the engine; the answer (accepted or refused) comes as Arrived or Rejected event.
  // kUnavailable when the command queue is full, or after drain or stop.
  Result<void> submit(sched::RequestParams params);
  // Always taken (the queue keeps room for them). Unknown ids are ignored.
  void cancel(RequestId id);
  void finish(RequestId id, sched::FinishReason reason);
  // Runs `call` on the engine's thread between steps (snapshots for /metrics or debug routes).
  // False after stop(): the call is dropped.
  bool post(std::function<void(Engine&)> call);

  // Takes no new requests; returns true once none is live, false at the timeout.
  bool drain(Nanos timeout);
  // Cancels what is live (its events are delivered) and joins the thread. Idempotent.
  void stop();
  // The Error that stopped the engine, if one did.
  bool has_failed() const;
  std::string failure() const;
  // Nanoseconds since the last step ended or the thread last looked for work; a stuck executor makes it grow.
  // 0 while the thread waits with nothing to do.
  Nanos since_heartbeat() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ullage::engine
