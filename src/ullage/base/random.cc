#include "ullage/base/random.h"

namespace ullage {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
  return mix(mix(mix(seed + kGolden) ^ (stream * kGolden + 1)) + index * kGolden);
}

double random_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<double>(random_bits(seed, stream, index) >> 11) * 0x1.0p-53;
}

uint64_t RandomStream::below(uint64_t n) {
  // Rejects the uneven tail of the 64-bit range, so that every value is equally likely.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
  uint64_t draw = bits();
  while (draw >= limit) draw = bits();
  return draw % n;
}

}  // namespace ullage
