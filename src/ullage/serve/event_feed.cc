#include "ullage/serve/event_feed.h"

#include <utility>
#include <variant>

#include "ullage/serve/metrics.h"

namespace ullage::serve {
namespace {

// What a client's answer is made of; the rest is for statistics.
bool is_for_clients(const sched::Event& event) {
  if (event.request.value == 0) return false;
  return !std::holds_alternative<sched::ChunkComputedEvent>(event.body) &&
         !std::holds_alternative<sched::PreemptedEvent>(event.body);
}

}  // namespace

EventFeed::EventFeed(Metrics& metrics, Nanos start) : metrics_(metrics), statistics_(start) {
  statistics_.add_listener(metrics_);
}

void EventFeed::set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

void EventFeed::on_events(std::span<const sched::Event> events) {
  statistics_.on_events(events);
  metrics_.update(statistics_);
  bool must_wake = false;
  {
    const std::lock_guard lock(mutex_);
    const bool was_empty = waiting_.empty();
    for (const sched::Event& event : events) {
      if (is_for_clients(event)) waiting_.push_back(event);
    }
    must_wake = was_empty && !waiting_.empty();
  }
  if (must_wake && wake_) wake_();
}

std::vector<sched::Event> EventFeed::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace ullage::serve
