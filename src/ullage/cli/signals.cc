#include "ullage/cli/signals.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include <pthread.h>

namespace ullage::cli {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void block_stop_signals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A peer that is gone is an error of the write, not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
}

SignalWatcher::SignalWatcher(std::function<void(int count)> on_signal)
    : thread_([call = std::move(on_signal)](const std::stop_token& stop) {
        const sigset_t set = stop_signals();
        const timespec wait{0, 100'000'000};  // how late the end of the program may be noticed
        int count = 0;
        while (!stop.stop_requested()) {
          if (sigtimedwait(&set, nullptr, &wait) > 0) call(++count);
        }
      }) {}

SignalWatcher::~SignalWatcher() = default;

}  // namespace ullage::cli
