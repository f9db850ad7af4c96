// The executor's own threads. A step is many short parallel regions, so workers spin briefly before they sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace ullage::cpu {

// Owned and driven by one thread (the engine's), which takes part in the work. Which thread does which item is left to
// chance; results must not depend on it.
class ThreadPool {
 public:
  // `num_threads` >= 1, the caller included.
  explicit ThreadPool(int64_t num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int64_t num_threads() const { return num_threads_; }

  // Calls work(item, thread_index) for each item in [0, num_items), in any order, and returns when all are done.
  // `work` must not call run() again.
  template <class Work>
  void run(int64_t num_items, const Work& work) {
    run_erased(
        num_items, [](const void* w, int64_t item, int64_t thread) { (*static_cast<const Work*>(w))(item, thread); },
        &work);
  }

 private:
  using Call = void (*)(const void* work, int64_t item, int64_t thread);
  void run_erased(int64_t num_items, Call call, const void* work);
  void serve(int64_t thread);
  void take_items(int64_t thread);

  const int64_t num_threads_;
  // One region at a time. Whoever has claimed an item may read its description: it stays until every item is done.
  Call call_ = nullptr;
  const void* work_ = nullptr;
  // The region's number in the high half, the items that nobody has claimed yet in the low one: a worker that wakes too
  // late claims nothing of an old region, so nobody has to wait for it.
  alignas(64) std::atomic<uint64_t> unclaimed_{0};
  alignas(64) std::atomic<int32_t> num_undone_{0};  // items claimed or not, of the current region
  alignas(64) std::atomic<int32_t> region_{0};      // what workers wait on
  std::atomic<bool> is_stopping_{false};
  std::vector<std::jthread> workers_;
};

// Threads that this process may run at once: its CPU affinity and its cgroup's CPU quota.
int64_t available_threads();

}  // namespace ullage::cpu
