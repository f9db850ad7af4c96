// Strong identifiers: a BlockId cannot be passed where a RequestId is meant. Counts stay plain int64_t.
#pragma once

#include <compare>
#include <cstdint>

namespace ullage {

template <class Tag, class Rep>
struct StrongId {
  Rep value = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

// Index of a block in the pool, [0, num_blocks). Block 0 is never given to a request (see cache/block_pool.h).
using BlockId = StrongId<struct BlockIdTag, int32_t>;
// Identity of a request within one engine, given in order of arrival from 1; 0 names none.
using RequestId = StrongId<struct RequestIdTag, int64_t>;
// Index of a vocabulary entry. Plain on purpose: models compute with it.
using TokenId = int32_t;

inline constexpr BlockId kNullBlock{0};

}  // namespace ullage
