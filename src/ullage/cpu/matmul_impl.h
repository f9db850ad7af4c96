// Matrix times activations, over a vector type V (simd_*.h). Included by the per-ISA files only.
//
// One dot product has one running vector: lane i sums columns i, i + lanes, i + 2 lanes, ... in order, then the lanes
// are added in a fixed tree. Weights become the same floats whether they are read into registers (one token) or into a
// panel that many tokens share, so both ways give the same bits.
#pragma once

#include <cstring>

#include "ullage/cpu/blocking.h"
#include "ullage/model/dequant.h"

#define ULLAGE_INLINE inline __attribute__((always_inline))

namespace ullage::cpu {
namespace {

constexpr int64_t kGroup = 32;  // columns read at once; activation rows are padded to it
static_assert(kRowPadding == kGroup);

// A Format turns 32 stored numbers into vectors.
template <class V>
struct FormatF32 {
  static constexpr int64_t kGroupBytes = 128;
  static ULLAGE_INLINE void load(const std::byte* p, typename V::Vec* w) {
#pragma GCC unroll 8
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::load(p + 4 * V::kLanes * i);
  }
};
template <class V>
struct FormatF16 {
  static constexpr int64_t kGroupBytes = 64;
  static ULLAGE_INLINE void load(const std::byte* p, typename V::Vec* w) {
#pragma GCC unroll 8
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::load_f16(p + 2 * V::kLanes * i);
  }
};
template <class V>
struct FormatBF16 {
  static constexpr int64_t kGroupBytes = 64;
  static ULLAGE_INLINE void load(const std::byte* p, typename V::Vec* w) {
#pragma GCC unroll 8
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::load_bf16(p + 2 * V::kLanes * i);
  }
};
// [scale f16][32 int8]
template <class V>
struct FormatQ8_0 {
  static constexpr int64_t kGroupBytes = 34;
  static ULLAGE_INLINE void load(const std::byte* p, typename V::Vec* w) {
    const auto scale = V::set_f16(p);
#pragma GCC unroll 8
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::mul(scale, V::load_i8(p + 2 + V::kLanes * i));
  }
};
// [scale f16][minimum f16][32 x 4 bits]: scale * q is exact in binary32, so the fused form rounds as the unfused one.
template <class V>
struct FormatQ4_1 {
  static constexpr int64_t kGroupBytes = 20;
  static ULLAGE_INLINE void load(const std::byte* p, typename V::Vec* w) {
    typename V::Vec scale, minimum;
    V::set_f16_pair(p, &scale, &minimum);
    V::load_nibbles(p + 4, w);
#pragma GCC unroll 8
    for (int i = 0; i < kGroup / V::kLanes; ++i) w[i] = V::fma(scale, w[i], minimum);
  }
};

// Group g of a row of `columns`; numbers past the end are zero (plain formats only, the others hold whole groups).
template <class V, class Format>
ULLAGE_INLINE void load_group(const std::byte* row, int64_t columns, int64_t g, typename V::Vec* w) {
  const std::byte* p = row + g * Format::kGroupBytes;
  if ((g + 1) * kGroup <= columns) [[likely]] {
    Format::load(p, w);
    return;
  }
  std::byte tail[Format::kGroupBytes] = {};
  std::memcpy(tail, p, static_cast<size_t>((columns - g * kGroup) * Format::kGroupBytes / kGroup));
  Format::load(tail, w);
}

ULLAGE_INLINE void put(const MatmulArgs& a, int64_t t, int64_t row, float dot) {
  float* out = a.out + t * a.out_stride + row;
  const float value = a.bias != nullptr ? dot + a.bias[row] : dot;
  *out = a.is_added ? *out + value : value;
}

// ---- one token: weights go from storage through registers into the sums.

// Rows lie one after another, but a few are read at once, which hides the stream from the hardware's prefetcher.
constexpr int64_t kRowsAhead = 8;

template <class V, class Format, int R>
void multiply_rows_once(const MatmulArgs& a, int64_t row) {
  using Vec = typename V::Vec;
  constexpr int kVectors = kGroup / V::kLanes;
  const std::byte* w = a.matrix->data + row * a.matrix->row_bytes;
  const int64_t columns = a.matrix->columns;
  const int64_t stride = a.matrix->row_bytes;
  const int64_t groups = (columns + kGroup - 1) / kGroup;
  Vec sums[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r] = V::zero();
  const std::byte* ahead = w + kRowsAhead * stride;
  for (int64_t g = 0; g < groups; ++g) {
    const float* x = a.x + g * kGroup;
    __builtin_prefetch(ahead + g * R * Format::kGroupBytes);
    if constexpr (R * Format::kGroupBytes > 64) __builtin_prefetch(ahead + g * R * Format::kGroupBytes + 64);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      Vec group[kVectors];
      load_group<V, Format>(w + r * stride, columns, g, group);
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) sums[r] = V::fma(group[i], V::load(x + i * V::kLanes), sums[r]);
    }
  }
  float dots[R];
  if constexpr (R == 4) {
    V::sum4(sums[0], sums[1], sums[2], sums[3], dots);
  } else {
    for (int r = 0; r < R; ++r) dots[r] = V::sum(sums[r]);
  }
  for (int r = 0; r < R; ++r) put(a, 0, row + r, dots[r]);
}

template <class V, class Format>
void multiply_one_token(const MatmulArgs& a) {
  int64_t row = a.row_begin;
  for (; row + kTileRows <= a.row_end; row += kTileRows) multiply_rows_once<V, Format, kTileRows>(a, row);
  for (; row < a.row_end; ++row) multiply_rows_once<V, Format, 1>(a, row);
}

// ---- many tokens: a panel of rows becomes floats once, then tiles of rows x tokens run over it.

// A panel of float rows, wherever they lie.
struct Panel {
  const std::byte* data = nullptr;
  int64_t stride_bytes = 0;
};

// Continues the sums of R rows and T tokens over `width` columns. saved: [T][kTileRows][lanes].
template <class V, int R, int T>
void multiply_tile(const MatmulArgs& a, const Panel& panel, const float* x, int64_t width, float* saved, bool is_first,
                   bool is_last, int64_t t, int64_t row) {
  using Vec = typename V::Vec;
  constexpr int L = V::kLanes;
  Vec sums[T][R];
#pragma GCC unroll 8
  for (int i = 0; i < T; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sums[i][r] = V::zero();
  }
  if (!is_first) {
#pragma GCC unroll 8
    for (int i = 0; i < T; ++i) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[i][r] = V::load(saved + (i * kTileRows + r) * L);
    }
  }
  const std::byte* w = panel.data;
  const int64_t w_stride = panel.stride_bytes;
  const int64_t x_stride = a.x_stride;
  for (int64_t k = 0; k < width; k += L) {
    Vec xs[T];
#pragma GCC unroll 8
    for (int i = 0; i < T; ++i) xs[i] = V::load(x + i * x_stride + k);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec weight = V::load(w + r * w_stride + k * 4);
#pragma GCC unroll 8
      for (int i = 0; i < T; ++i) sums[i][r] = V::fma(weight, xs[i], sums[i][r]);
    }
  }
  if (!is_last) {
#pragma GCC unroll 8
    for (int i = 0; i < T; ++i) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) V::store(saved + (i * kTileRows + r) * L, sums[i][r]);
    }
    return;
  }
  for (int i = 0; i < T; ++i) {
    float dots[R];
    if constexpr (R == 4) {
      V::sum4(sums[i][0], sums[i][1], sums[i][2], sums[i][3], dots);
    } else {
      for (int r = 0; r < R; ++r) dots[r] = V::sum(sums[i][r]);
    }
    for (int r = 0; r < R; ++r) put(a, t + i, row + r, dots[r]);
  }
}

// Rows [row, row + R) for tokens [t_begin, t_end).
template <class V, int R>
void multiply_strip(const MatmulArgs& a, const Panel& panel, float* saved, int64_t t_begin, int64_t t_end,
                    int64_t row) {
  const int64_t width = padded_width(a.matrix->columns);
  for (int64_t k = 0; k < width; k += kColumnBlock) {
    const int64_t n = width - k < kColumnBlock ? width - k : kColumnBlock;
    const bool is_first = k == 0;
    const bool is_last = k + n == width;
    const Panel part{panel.data + k * 4, panel.stride_bytes};
    int64_t t = t_begin;
    for (; t + kTileTokens <= t_end; t += kTileTokens) {
      multiply_tile<V, R, 3>(a, part, a.x + t * a.x_stride + k, n, saved + (t - t_begin) * kTileRows * V::kLanes,
                             is_first, is_last, t, row);
    }
    if (t_end - t == 2) {
      multiply_tile<V, R, 2>(a, part, a.x + t * a.x_stride + k, n, saved + (t - t_begin) * kTileRows * V::kLanes,
                             is_first, is_last, t, row);
    } else if (t_end - t == 1) {
      multiply_tile<V, R, 1>(a, part, a.x + t * a.x_stride + k, n, saved + (t - t_begin) * kTileRows * V::kLanes,
                             is_first, is_last, t, row);
    }
  }
}

template <class V, class Format>
void fill_panel(const Matrix& m, int64_t row, int64_t num_rows, float* panel) {
  constexpr int kVectors = kGroup / V::kLanes;
  const int64_t width = padded_width(m.columns);
  for (int64_t r = 0; r < num_rows; ++r) {
    const std::byte* data = m.data + (row + r) * m.row_bytes;
    for (int64_t g = 0; g * kGroup < width; ++g) {
      typename V::Vec group[kVectors];
      load_group<V, Format>(data, m.columns, g, group);
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) V::store(panel + r * width + g * kGroup + i * V::kLanes, group[i]);
    }
  }
}

inline void fill_panel_by_reference(const Matrix& m, int64_t row, int64_t num_rows, float* panel) {
  const int64_t width = padded_width(m.columns);
  for (int64_t r = 0; r < num_rows; ++r) {
    model::dequantize_row(m.dtype, m.data + (row + r) * m.row_bytes, panel + r * width, m.columns);
    for (int64_t k = m.columns; k < width; ++k) panel[r * width + k] = 0.0f;
  }
}

template <class V>
void multiply_panels(const MatmulArgs& a, void (*fill)(const Matrix&, int64_t, int64_t, float*)) {
  const Matrix& m = *a.matrix;
  const int64_t width = padded_width(m.columns);
  const int64_t max_rows = panel_rows(width);
  const int64_t max_tokens = token_block(width);
  float* saved = a.scratch + max_rows * width;
  for (int64_t row = a.row_begin; row < a.row_end; row += max_rows) {
    const int64_t num_rows = a.row_end - row < max_rows ? a.row_end - row : max_rows;
    Panel panel{m.data + row * m.row_bytes, m.row_bytes};
    if (fill != nullptr) {
      fill(m, row, num_rows, a.scratch);
      panel = Panel{reinterpret_cast<const std::byte*>(a.scratch), width * 4};
    }
    for (int64_t t = 0; t < a.num_tokens; t += max_tokens) {
      const int64_t t_end = a.num_tokens - t < max_tokens ? a.num_tokens : t + max_tokens;
      int64_t r = 0;
      for (; r + kTileRows <= num_rows; r += kTileRows) {
        const Panel strip{panel.data + r * panel.stride_bytes, panel.stride_bytes};
        multiply_strip<V, kTileRows>(a, strip, saved, t, t_end, row + r);
      }
      for (; r < num_rows; ++r) {
        const Panel strip{panel.data + r * panel.stride_bytes, panel.stride_bytes};
        multiply_strip<V, 1>(a, strip, saved, t, t_end, row + r);
      }
    }
  }
}

template <class V>
void matmul(const MatmulArgs& a) {
  const bool is_one = a.num_tokens == 1;
  switch (a.matrix->dtype) {
    case model::DType::kF32: {
      const bool is_padded = a.matrix->columns % kGroup == 0;
      return is_one ? multiply_one_token<V, FormatF32<V>>(a)
                    : multiply_panels<V>(a, is_padded ? nullptr : &fill_panel<V, FormatF32<V>>);
    }
    case model::DType::kF16:
      return is_one ? multiply_one_token<V, FormatF16<V>>(a) : multiply_panels<V>(a, &fill_panel<V, FormatF16<V>>);
    case model::DType::kBF16:
      return is_one ? multiply_one_token<V, FormatBF16<V>>(a) : multiply_panels<V>(a, &fill_panel<V, FormatBF16<V>>);
    case model::DType::kQ8_0:
      return is_one ? multiply_one_token<V, FormatQ8_0<V>>(a) : multiply_panels<V>(a, &fill_panel<V, FormatQ8_0<V>>);
    case model::DType::kQ4_1:
      return is_one ? multiply_one_token<V, FormatQ4_1<V>>(a) : multiply_panels<V>(a, &fill_panel<V, FormatQ4_1<V>>);
    default:
      return multiply_panels<V>(a, &fill_panel_by_reference);
  }
}

}  // namespace
}  // namespace ullage::cpu
