// 128-bit hashes (XXH3). Not keyed against attack: whoever looks something up by one compares the content on a hit.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

namespace ullage {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend constexpr auto operator<=>(const Hash128&, const Hash128&) = default;
};

// XXH3-128 of the bytes, with a 64-bit seed.
Hash128 hash128(std::span<const std::byte> bytes, uint64_t seed = 0);
// 32 lower-case hex digits, high half first.
std::string to_hex(const Hash128& hash);

}  // namespace ullage
