// How the matrix and attention kernels cut their work to fit the caches. None of it changes a result: each output's sum
// runs over its row in one order, however the rows and tokens are grouped.
#pragma once

#include <cstdint>

#include "ullage/cpu/kernels.h"

namespace ullage::cpu {

inline constexpr int64_t kMaxLanes = 16;
// Rows and tokens of the innermost tile: 4 x 3 running sums, 3 activations and 1 weight fill AVX2's 16 registers.
inline constexpr int64_t kTileRows = 4;
inline constexpr int64_t kTileTokens = 3;
// Columns that a tile goes through before it moves on: 4 + 3 rows of 768 floats are 21 KiB, inside a 32 KiB L1.
inline constexpr int64_t kColumnBlock = 768;
inline constexpr int64_t kMaxTokenBlock = 96;
// Half an L2 of 256 KiB each for a panel of weights and a block of activations.
inline constexpr int64_t kCacheFloats = 32 * 1024;

constexpr int64_t clamp_count(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}
// Rows that are turned into floats together.
constexpr int64_t panel_rows(int64_t width) { return clamp_count(kCacheFloats / width / kTileRows, 1, 8) * kTileRows; }
// Tokens that go through a panel together.
constexpr int64_t token_block(int64_t width) {
  return clamp_count(kCacheFloats / width / kTileTokens, 4, kMaxTokenBlock / kTileTokens) * kTileTokens;
}

// A row of scores, with room for the lanes past its end.
inline constexpr int64_t kScoreStride = kPartition + 2 * kMaxLanes;

}  // namespace ullage::cpu
