// Attention over block tables, over a vector type V. Included by the per-ISA files only.
//
// Keys lie transposed inside a block ([head_dim, block_size]), so that one vector holds the same element of consecutive
// keys: scores need no sums across lanes, and a score is one chain over head_dim. Values lie as [block_size, head_dim]:
// an output element is one chain over the positions of a partition. Query rows go through in tiles, for speed only.
#pragma once

#include <array>
#include <utility>

#include "ullage/cpu/blocking.h"
#include "ullage/cpu/vector_math_impl.h"

namespace ullage::cpu {
namespace {

template <class V>
struct KvF32 {
  static constexpr int64_t kBytes = 4;
  static typename V::Vec load(const std::byte* p) { return V::load(p); }
};
template <class V>
struct KvF16 {
  static constexpr int64_t kBytes = 2;
  static typename V::Vec load(const std::byte* p) { return V::load_f16(p); }
};
template <class V>
struct KvBF16 {
  static constexpr int64_t kBytes = 2;
  static typename V::Vec load(const std::byte* p) { return V::load_bf16(p); }
};

// c[m][lanes] (+)= sum over k of a[m][k] * b[k][lanes]; for M rows and N vectors.
template <class V, class Kv, int M, int N>
void multiply_rows(const float* const* a, int64_t n, const std::byte* b, int64_t b_stride, float* const* c,
                   bool is_added) {
  using Vec = typename V::Vec;
  constexpr int64_t L = V::kLanes;
  Vec sums[M][N];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) sums[m][v] = is_added ? V::load(c[m] + v * L) : V::zero();
  }
  const float* rows[M];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) rows[m] = a[m];
  for (int64_t k = 0; k < n; ++k) {
    Vec values[N];
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) values[v] = Kv::load(b + k * b_stride + v * L * Kv::kBytes);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      const Vec x = V::set(rows[m][k]);
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) sums[m][v] = V::fma(x, values[v], sums[m][v]);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) V::store(c[m] + v * L, sums[m][v]);
  }
}

using MultiplyRows = void (*)(const float* const*, int64_t, const std::byte*, int64_t, float* const*, bool);
template <class V, class Kv, int N, int... M>
constexpr std::array<MultiplyRows, sizeof...(M)> multiply_rows_table(std::integer_sequence<int, M...>) {
  return {&multiply_rows<V, Kv, M + 1, N>...};
}
// multiply_rows for m rows, m in [1, kQueryTile], is entry m - 1.
template <class V, class Kv, int N>
inline constexpr auto kMultiplyRows = multiply_rows_table<V, Kv, N>(std::make_integer_sequence<int, V::kQueryTile>());

// Positions [begin, end) that a query row sees in a partition.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
inline Range visible(const AttentionArgs& a, int64_t partition, int64_t row) {
  const int64_t position = a.first_position + row / a.group;
  const int64_t begin = partition * kPartition;
  const int64_t end = begin + kPartition;
  const int64_t first = a.window > 0 && position + 1 > a.window ? position + 1 - a.window : 0;
  return {first > begin ? first : begin, position + 1 < end ? position + 1 : end};
}

// A run of positions inside one block.
struct Run {
  int64_t num_slots = 0;
  int64_t slot = 0;
  int64_t block_offset = 0;  // bytes from block 0
};
inline Run run_at(const AttentionArgs& a, int64_t position, int64_t end) {
  const int64_t slot = position % a.block_size;
  const int64_t left = a.block_size - slot;
  return {end - position < left ? end - position : left, slot,
          int64_t{a.block_table[position / a.block_size].value} * a.block_bytes};
}

// scores[m][position - start] for positions in [range); writes up to 2 * lanes past the end.
template <class V, class Kv>
void compute_scores(const AttentionArgs& a, const float* const* queries, int64_t num_rows, Range range, int64_t start,
                    float* const* scores) {
  constexpr int64_t step = V::kLanes * V::kTileVectors;
  float* out[V::kQueryTile];
  for (int64_t position = range.begin; position < range.end;) {
    const Run run = run_at(a, position, range.end);
    const std::byte* keys = a.keys + run.block_offset + run.slot * Kv::kBytes;
    for (int64_t j = 0; j < run.num_slots;) {
      for (int64_t m = 0; m < num_rows; ++m) out[m] = scores[m] + (position - start) + j;
      const bool is_wide = run.num_slots - j > V::kLanes;
      const auto& multiply = is_wide ? kMultiplyRows<V, Kv, V::kTileVectors> : kMultiplyRows<V, Kv, 1>;
      multiply[num_rows - 1](queries, a.head_dim, keys + j * Kv::kBytes, a.block_size * Kv::kBytes, out, false);
      j += is_wide ? step : V::kLanes;
    }
    position += run.num_slots;
  }
}

// Turns a row's scores in `range` into weights relative to their maximum; zero in the lanes around. state = [max, sum].
template <class V>
void normalise_scores(float* scores, Range range, int64_t start, float* state) {
  using Vec = typename V::Vec;
  constexpr int64_t L = V::kLanes;
  const int64_t begin = range.begin - start;
  const int64_t end = range.end - start;
  const int64_t first = begin / L * L;
  const int64_t last = (end + L - 1) / L * L;
  for (int64_t i = first; i < begin; ++i) scores[i] = -__builtin_inff();
  for (int64_t i = end; i < last; ++i) scores[i] = -__builtin_inff();
  Vec maxima = V::load(scores + first);
  for (int64_t i = first + L; i < last; i += L) maxima = V::max(maxima, V::load(scores + i));
  const float maximum = V::maximum(maxima);
  const Vec shift = V::set(maximum);
  Vec sums = V::zero();
  for (int64_t i = first; i < last; i += L) {
    const Vec weight = exp_vector<V>(V::sub(V::load(scores + i), shift));
    sums = V::add(sums, weight);
    V::store(scores + i, weight);
  }
  state[0] = maximum;
  state[1] = V::sum(sums);
}

// values[m] += weights over positions in `range`, which all rows see.
template <class V, class Kv>
void add_values(const AttentionArgs& a, float* const* scores, int64_t num_rows, Range range, int64_t start,
                float* const* values) {
  constexpr int64_t step = V::kLanes * V::kTileVectors;
  const float* weights[V::kQueryTile];
  float* out[V::kQueryTile];
  for (int64_t position = range.begin; position < range.end;) {
    const Run run = run_at(a, position, range.end);
    const std::byte* rows = a.values + run.block_offset + run.slot * a.head_dim * Kv::kBytes;
    for (int64_t m = 0; m < num_rows; ++m) weights[m] = scores[m] + (position - start);
    for (int64_t d = 0; d < a.head_dim;) {
      for (int64_t m = 0; m < num_rows; ++m) out[m] = values[m] + d;
      const bool is_wide = a.head_dim - d > V::kLanes;
      const auto& multiply = is_wide ? kMultiplyRows<V, Kv, V::kTileVectors> : kMultiplyRows<V, Kv, 1>;
      multiply[num_rows - 1](weights, run.num_slots, rows + d * Kv::kBytes, a.head_dim * Kv::kBytes, out, true);
      d += is_wide ? step : V::kLanes;
    }
    position += run.num_slots;
  }
}

// Query rows [row, row + num_rows), num_rows <= kQueryTile.
template <class V, class Kv>
void attend_rows(const AttentionArgs& a, int64_t partition, int64_t row, int64_t num_rows, float* states) {
  const int64_t start = partition * kPartition;
  const int64_t state_floats = attention_state_floats(a.head_dim);
  const float* queries[V::kQueryTile];
  float* scores[V::kQueryTile];
  float* values[V::kQueryTile];
  Range ranges[V::kQueryTile];
  Range all{start + kPartition, start};
  Range common{start, start + kPartition};
  int64_t num_seeing = 0;  // rows that see something here, moved together
  for (int64_t m = 0; m < num_rows; ++m) {
    float* state = states + (row + m) * state_floats;
    for (int64_t i = 0; i < state_floats; ++i) state[i] = 0.0f;
    const Range range = visible(a, partition, row + m);
    if (range.begin >= range.end) continue;
    const int64_t i = num_seeing++;
    ranges[i] = range;
    queries[i] = a.q + (row + m) / a.group * a.q_stride + (row + m) % a.group * a.head_dim;
    scores[i] = a.scratch + i * kScoreStride;
    values[i] = state + kRowPadding;
    all = {range.begin < all.begin ? range.begin : all.begin, range.end > all.end ? range.end : all.end};
    common = {range.begin > common.begin ? range.begin : common.begin, range.end < common.end ? range.end : common.end};
  }
  if (num_seeing == 0) return;
  compute_scores<V, Kv>(a, queries, num_seeing, all, start, scores);
  for (int64_t i = 0; i < num_seeing; ++i) normalise_scores<V>(scores[i], ranges[i], start, values[i] - kRowPadding);
  // Positions that only some rows see are added row by row: a weight of zero times an infinite value would not be zero.
  const bool is_common = common.begin < common.end;
  if (!is_common) common = {all.end, all.end};
  for (int64_t i = 0; i < num_seeing; ++i) {
    const int64_t end = ranges[i].end < common.begin ? ranges[i].end : common.begin;
    add_values<V, Kv>(a, scores + i, 1, {ranges[i].begin, end}, start, values + i);
  }
  if (!is_common) return;
  add_values<V, Kv>(a, scores, num_seeing, common, start, values);
  for (int64_t i = 0; i < num_seeing; ++i)
    add_values<V, Kv>(a, scores + i, 1, {common.end, ranges[i].end}, start, values + i);
}

template <class V, class Kv>
void attend_all_rows(const AttentionArgs& a, int64_t partition, float* states) {
  const int64_t rows = a.num_tokens * a.group;
  for (int64_t row = 0; row < rows; row += V::kQueryTile) {
    const int64_t left = rows - row;
    attend_rows<V, Kv>(a, partition, row, left < V::kQueryTile ? left : V::kQueryTile, states);
  }
}

template <class V>
void attend_partition(const AttentionArgs& a, int64_t partition, float* states) {
  switch (a.kv_dtype) {
    case model::DType::kF32:
      return attend_all_rows<V, KvF32<V>>(a, partition, states);
    case model::DType::kF16:
      return attend_all_rows<V, KvF16<V>>(a, partition, states);
    default:
      return attend_all_rows<V, KvBF16<V>>(a, partition, states);
  }
}

// Milakov and Gimelshein 2018: (m, l, o) of two sets of keys give those of their union.
template <class V>
void merge_states(float* running, const float* next, int64_t head_dim) {
  constexpr int64_t L = V::kLanes;
  const int64_t floats = attention_state_floats(head_dim);
  if (next[1] == 0.0f) return;  // it saw nothing: a sum holds the maximum's own 1
  if (running[1] == 0.0f) {
    for (int64_t i = 0; i < floats; ++i) running[i] = next[i];
    return;
  }
  const float maximum = running[0] > next[0] ? running[0] : next[0];
  float shifts[V::kLanes] = {running[0] - maximum, next[0] - maximum};
  V::store(shifts, exp_vector<V>(V::load(shifts)));
  const auto old_factor = V::set(shifts[0]);
  const auto new_factor = V::set(shifts[1]);
  running[0] = maximum;
  running[1] = running[1] * shifts[0] + next[1] * shifts[1];
  for (int64_t i = kRowPadding; i < floats; i += L) {
    V::store(running + i, V::fma(V::load(next + i), new_factor, V::mul(V::load(running + i), old_factor)));
  }
}

template <class V>
void finish_state(const float* state, float* out, int64_t head_dim) {
  constexpr int64_t L = V::kLanes;
  const auto sum = V::set(state[1]);
  const float* values = state + kRowPadding;
  int64_t i = 0;
  for (; i + L <= head_dim; i += L) V::store(out + i, V::div(V::load(values + i), sum));
  if (i < head_dim) store_first<V>(out + i, V::div(V::load(values + i), sum), head_dim - i);
}

}  // namespace
}  // namespace ullage::cpu
