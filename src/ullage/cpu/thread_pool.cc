#include "ullage/cpu/thread_pool.h"

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
  for (int64_t i = next_item_.fetch_add(1, std::memory_order_relaxed); i < num_items_;
       i = next_item_.fetch_add(1, std::memory_order_relaxed)) {
    call_(work_, i, thread);
  }
}

void ThreadPool::run_erased(int64_t num_items, Call call, const void* work) {
  if (workers_.empty() || num_items <= 1) {
    for (int64_t i = 0; i < num_items; ++i) call(work, i, 0);
    return;
  }
  call_ = call;
  work_ = work;
  num_items_ = num_items;
  next_item_.store(0, std::memory_order_relaxed);
  num_busy_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
  region_.fetch_add(1, std::memory_order_release);
  region_.notify_all();
  take_items(0);
  // Every worker has to leave the region before its description changes, even one that came too late for any item.
  for (int32_t busy = num_busy_.load(std::memory_order_acquire); busy != 0;
       busy = num_busy_.load(std::memory_order_acquire)) {
    wait_for_change(num_busy_, busy);
  }
}

void ThreadPool::serve(int64_t thread) {
  int32_t seen = 0;
  for (;;) {
    wait_for_change(region_, seen);
    seen = region_.load(std::memory_order_acquire);
    if (is_stopping_.load(std::memory_order_relaxed)) return;
    take_items(thread);
    if (num_busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) num_busy_.notify_one();
  }
}

}  // namespace ullage::cpu
