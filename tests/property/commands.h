// Random command lists for property tests: pinned seed, shrinkable, cheap to decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <rapidcheck.h>

#include "ullage/base/hash.h"

namespace ullage::test {

// Pins rapidcheck's seed and sizes: a run is the same everywhere. What RC_PARAMS sets goes before:
// `RC_PARAMS="seed=7 max_success=100000"` looks elsewhere, for longer. False when RC_PARAMS asks for fewer cases, too
// few to expect much of. Use from a static initialiser, before the first property.
inline bool pin_rapidcheck(int max_success, int max_size) {
  const char* given = std::getenv("RC_PARAMS");
  std::string params = given == nullptr ? "" : given;
  const size_t at = params.find("max_success=");
  const bool is_whole =
      at == std::string::npos || std::atoi(params.c_str() + at + sizeof("max_success")) >= max_success;
  if (params.find("reproduce=") == std::string::npos) {  // which rapidcheck takes with nothing beside it
    if (params.find("seed=") == std::string::npos) params += " seed=20260";
    if (at == std::string::npos) params += " max_success=" + std::to_string(max_success);
    if (params.find("max_size=") == std::string::npos) params += " max_size=" + std::to_string(max_size);
  }
  setenv("RC_PARAMS", params.c_str(), 1);
  return is_whole;
}

// 64 random bits a command, all sizes alike; the list's length grows with rapidcheck's size.
inline std::vector<uint64_t> draw_commands() {
  return *rc::gen::container<std::vector<uint64_t>>(
      rc::gen::resize(rc::kNominalSize, rc::gen::inRange<uint64_t>(0, std::numeric_limits<uint64_t>::max())));
}
// Uniform in [low, high].
inline int64_t draw_between(int64_t low, int64_t high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(low, high + 1));
}

// Takes a command's bits apart.
class Bits {
 public:
  explicit Bits(uint64_t bits) : bits_(bits) {}
  // In [0, n), n > 0.
  int64_t below(int64_t n) {
    const auto size = static_cast<uint64_t>(n);
    const auto value = static_cast<int64_t>(bits_ % size);
    bits_ = bits_ / size * 0x9E3779B97F4A7C15u + (bits_ >> 31);
    return value;
  }

 private:
  uint64_t bits_;
};

// Keys that collide all the time: two values.
inline Hash128 poor_key(std::span<const std::byte> bytes, uint64_t seed) { return {0, hash128(bytes, seed).low & 1}; }

}  // namespace ullage::test
