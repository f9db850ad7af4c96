#include "ullage/cpu/thread_pool.h"

#include "ullage/base/check.h"

namespace ullage::cpu {
namespace {

// About 20 microseconds: longer than the serial parts between two regions of a step, far shorter than a time slice.
constexpr int kSpins = 600;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits until `value` is no longer `old`.
void wait_for_change(std::atomic<int32_t>& value, int32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int64_t num_threads) : num_threads_(num_threads) {
  for (int64_t i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { serve(i); });
}

ThreadPool::~ThreadPool() {
  is_stopping_.store(true, std::memory_order_relaxed);
  region_.fetch_add(1, std::memory_order_release);
  region_.notify_all();
}

void ThreadPool::take_items(int64_t thread) {
  constexpr uint64_t kItems = 0xffffffffu;
  uint64_t seen = unclaimed_.load(std::memory_order_acquire);
  while ((seen & kItems) != 0) {
    if (!unclaimed_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    call_(work_, static_cast<int64_t>(seen & kItems) - 1, thread);
    if (num_undone_.fetch_sub(1, std::memory_order_acq_rel) == 1) num_undone_.notify_one();
    seen = unclaimed_.load(std::memory_order_acquire);
  }
}

void ThreadPool::run_erased(int64_t num_items, Call call, const void* work) {
  if (workers_.empty() || num_items <= 1) {
    for (int64_t i = 0; i < num_items; ++i) call(work, i, 0);
    return;
  }
  ULLAGE_CHECK(num_items <= INT32_MAX);
  call_ = call;
  work_ = work;
  num_undone_.store(static_cast<int32_t>(num_items), std::memory_order_relaxed);
  const uint32_t region = static_cast<uint32_t>(region_.load(std::memory_order_relaxed)) + 1;  // may wrap
  unclaimed_.store(static_cast<uint64_t>(region) << 32 | static_cast<uint64_t>(num_items), std::memory_order_release);
  region_.store(static_cast<int32_t>(region), std::memory_order_release);
  region_.notify_all();
  take_items(0);
  for (int32_t undone = num_undone_.load(std::memory_order_acquire); undone != 0;
       undone = num_undone_.load(std::memory_order_acquire)) {
    wait_for_change(num_undone_, undone);
  }
}

void ThreadPool::serve(int64_t thread) {
  for (;;) {
    const int32_t seen = region_.load(std::memory_order_acquire);
    if (is_stopping_.load(std::memory_order_relaxed)) return;
    take_items(thread);
    wait_for_change(region_, seen);
  }
}

}  // namespace ullage::cpu
