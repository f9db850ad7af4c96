#include "ullage/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ullage {

Hash128 hash128(std::span<const std::byte> bytes, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return Hash128{h.high64, h.low64};
}

std::string to_hex(const Hash128& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(hash.high >> (4 * i)) & 15];
    text[31 - i] = kDigits[(hash.low >> (4 * i)) & 15];
  }
  return text;
}

}  // namespace ullage
