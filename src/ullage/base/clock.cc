#include "ullage/base/clock.h"

#include <chrono>
#if !defined(__wasi__)
#include <thread>
#endif

namespace ullage {

Nanos RealClock::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void RealClock::sleep_until(Nanos t) {
#if defined(__wasi__)
  while (now() < t) {
  }
#else
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(t)));
#endif
}

}  // namespace ullage
