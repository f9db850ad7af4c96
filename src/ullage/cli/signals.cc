#include "ullage/cli/signals.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include <pthread.h>
#include <unistd.h>

namespace ullage::cli {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// Only what a signal's handler may do.
void on_bus_error(int, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) return;  // the handler is gone: the fault comes again and ends the program
  static constexpr char kMessage[] =
      "error: a model file was cut short, or can no longer be read, while it was in use; to replace one, write the new "
      "file beside it and rename it\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  ::_exit(1);
}

}  // namespace

void explain_lost_mappings() {
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
  sigaction(SIGBUS, &action, nullptr);
}

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
