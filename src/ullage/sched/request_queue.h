// The waiting queue under both policies, over the slots of the scheduler's request table.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ullage/base/ids.h"
#include "ullage/base/units.h"

namespace ullage::sched {

// Who goes first under the priority policy, and who is the last to be preempted. The id makes it a strict order.
struct Rank {
  int64_t priority = 0;  // lower is more important
  Nanos arrival = 0;
  RequestId id;
  friend constexpr auto operator<=>(const Rank&, const Rank&) = default;
};

// First come, first served: a linked list over slots, O(1), no allocation beyond the slots' number. Priority: ordered
// by Rank, O(log waiting). One owner thread.
class RequestQueue {
 public:
  explicit RequestQueue(bool is_priority_policy) : is_priority_policy_(is_priority_policy) {}

  int64_t size() const { return size_; }
  // The slot to admit next. REQUIRES: size() > 0.
  int32_t front() const;
  // A new arrival: at the end.
  void push_back(int32_t slot, const Rank& rank);
  // A preempted request: at the front.
  void push_front(int32_t slot, const Rank& rank);
  void erase(int32_t slot, const Rank& rank);
  // In order; appended.
  void slots(std::vector<int32_t>& out) const;

 private:
  struct Link {
    int32_t prev = 0;
    int32_t next = 0;
  };
  void insert_after(int32_t prev, int32_t slot);

  bool is_priority_policy_ = false;
  int64_t size_ = 0;
  std::vector<Link> links_{1};  // circular; slot s is links_[s + 1], links_[0] holds both ends
  std::set<std::pair<Rank, int32_t>> ranked_;
};

}  // namespace ullage::sched
