// SIGINT and SIGTERM, delivered to a thread rather than to a handler.
#pragma once

#include <functional>
#include <thread>

namespace ullage::cli {

// Blocks the two signals in the calling thread and every thread it starts later. Call before any thread starts.
void block_stop_signals();

// Makes a fault in a mapped file (it was truncated, or its disk failed) end the program with a sentence and exit code 1
// rather than "Bus error" alone.
void explain_lost_mappings();

// Calls `on_signal(1)` for the first, `on_signal(2)` for the second signal and so on, on a thread of its own.
// REQUIRES: block_stop_signals() was called. The destructor ends the thread.
class SignalWatcher {
 public:
  explicit SignalWatcher(std::function<void(int count)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace ullage::cli
