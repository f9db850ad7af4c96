// From the engine's thread to the io thread: statistics and metrics are fed on the way, and what clients wait for is
// handed over once a step, not once a token.
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "ullage/base/units.h"
#include "ullage/engine/engine.h"
#include "ullage/engine/statistics.h"
#include "ullage/sched/event.h"

namespace ullage::serve {

class Metrics;

// on_events() and statistics(): the engine's thread. take(): the io thread.
class EventFeed final : public engine::EventSink {
 public:
  // `start`: the clock's time now. Metrics outlive it.
  EventFeed(Metrics& metrics, Nanos start);

  // Called on the engine's thread when there is something to take, once until it was taken. Set before the engine runs;
  // must not block.
  void set_wake(std::function<void()> wake);
  void on_events(std::span<const sched::Event> events) override;
  engine::Statistics& statistics() { return statistics_; }

  // Everything that came since the last call, in order; a step's events are never split. What may wait here is bounded
  // by the live requests' max_tokens: the io thread takes all of it at once.
  std::vector<sched::Event> take();

 private:
  Metrics& metrics_;
  engine::Statistics statistics_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<sched::Event> waiting_;  // guarded by mutex_
};

}  // namespace ullage::serve
