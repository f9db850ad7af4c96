#include "ullage/sched/request_queue.h"

#include "ullage/base/check.h"

namespace ullage::sched {
namespace {

size_t at(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

int32_t RequestQueue::front() const {
  ULLAGE_CHECK(size_ > 0);
  return is_priority_policy_ ? ranked_.begin()->second : links_[0].next - 1;
}

void RequestQueue::insert_after(int32_t prev, int32_t slot) {
  if (links_.size() < at(slot) + 2) links_.resize(at(slot) + 2);
  const int32_t next = links_[at(prev)].next;
  links_[at(slot + 1)] = {prev, next};
  links_[at(prev)].next = slot + 1;
  links_[at(next)].prev = slot + 1;
}

void RequestQueue::push_back(int32_t slot, const Rank& rank) {
  ++size_;
  if (is_priority_policy_) {
    ranked_.insert({rank, slot});
  } else {
    insert_after(links_[0].prev, slot);
  }
}

void RequestQueue::push_front(int32_t slot, const Rank& rank) {
  ++size_;
  if (is_priority_policy_) {
    ranked_.insert({rank, slot});
  } else {
    insert_after(0, slot);
  }
}

void RequestQueue::erase(int32_t slot, const Rank& rank) {
  --size_;
  if (is_priority_policy_) {
    ULLAGE_CHECK(ranked_.erase({rank, slot}) == 1);
    return;
  }
  const Link link = links_[at(slot + 1)];
  links_[at(link.prev)].next = link.next;
  links_[at(link.next)].prev = link.prev;
}

void RequestQueue::slots(std::vector<int32_t>& out) const {
  if (is_priority_policy_) {
    for (const auto& [rank, slot] : ranked_) out.push_back(slot);
  } else {
    for (int32_t i = links_[0].next; i != 0; i = links_[at(i)].next) out.push_back(i - 1);
  }
}

}  // namespace ullage::sched
