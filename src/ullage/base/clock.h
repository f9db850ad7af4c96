// Time is injected: nothing below engine/ reads a clock, and tests drive a virtual one.
#pragma once

#include "ullage/base/units.h"

namespace ullage {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic nanoseconds from an arbitrary origin. Any thread.
  virtual Nanos now() const = 0;
  // Blocks (or advances, when virtual) until now() >= t.
  virtual void sleep_until(Nanos t) = 0;
};

// std::chrono::steady_clock. Any thread.
class RealClock final : public Clock {
 public:
  Nanos now() const override;
  void sleep_until(Nanos t) override;
};

// Starts at 0 and moves only when told. One thread.
class VirtualClock final : public Clock {
 public:
  Nanos now() const override { return now_; }
  void sleep_until(Nanos t) override {
    if (t > now_) now_ = t;
  }
  void advance(Nanos d) { now_ += d; }

 private:
  Nanos now_ = 0;
};

}  // namespace ullage
