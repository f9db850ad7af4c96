// Counter-based random numbers: the value depends on (seed, stream, index) alone, so a request draws the same numbers
// whatever else is in the batch, and after a preemption.
#pragma once

#include <cstdint>

namespace ullage {

// A well-mixed 64-bit function of its arguments (SplitMix64's finaliser applied twice; Steele et al. 2014).
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index);
// Uniform in [0, 1) with 53 bits.
double random_uniform(uint64_t seed, uint64_t stream, uint64_t index);

// The same as a sequence: draws index 0, 1, 2, ... of one stream.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  uint64_t bits() { return random_bits(seed_, stream_, index_++); }
  double uniform() { return random_uniform(seed_, stream_, index_++); }
  // Uniform in [0, n), n > 0.
  uint64_t below(uint64_t n);

 private:
  uint64_t seed_ = 0;
  uint64_t stream_ = 0;
  uint64_t index_ = 0;
};

}  // namespace ullage
