// Element-wise functions over a vector type V. Every element goes through the same vector code, the last ones padded,
// so that its value does not depend on where it lies.
#pragma once

#include <cstring>

#include "ullage/cpu/kernels.h"

namespace ullage::cpu {
namespace {

// e^x in binary32. x = n ln 2 + r with |r| <= ln(2)/2 (ln 2 split in two, Cody and Waite 1980), e^r by its Taylor
// series to r^7 / 5040 (next term below 2^-27 of the result). Below -87: 0 (the result nears the subnormals); above 88:
// e^88.
template <class V>
typename V::Vec exp_vector(typename V::Vec x) {
  using Vec = typename V::Vec;
  const Vec low = V::set(-87.0f);
  // max and min give their second operand when one is NaN, so a NaN stays.
  const Vec clamped = V::min(V::set(88.0f), V::max(low, x));
  const Vec round = V::set(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
  const Vec n = V::sub(V::add(V::mul(clamped, V::set(1.44269504f)), round), round);
  Vec r = V::fma(n, V::set(-0.693359375f), clamped);
  r = V::fma(n, V::set(2.12194440e-4f), r);
  Vec p = V::set(1.0f / 5040.0f);
  p = V::fma(p, r, V::set(1.0f / 720.0f));
  p = V::fma(p, r, V::set(1.0f / 120.0f));
  p = V::fma(p, r, V::set(1.0f / 24.0f));
  p = V::fma(p, r, V::set(1.0f / 6.0f));
  p = V::fma(p, r, V::set(0.5f));
  p = V::fma(p, r, V::set(1.0f));
  p = V::fma(p, r, V::set(1.0f));
  return V::keep_from(x, low, V::mul(p, V::power_of_two(n)));
}

// Up to kLanes numbers, zeros after them.
template <class V>
typename V::Vec load_first(const float* p, int64_t n) {
  float lanes[V::kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return V::load(lanes);
}
template <class V>
void store_first(float* p, typename V::Vec a, int64_t n) {
  float lanes[V::kLanes];
  V::store(lanes, a);
  std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
}

template <class V>
void rms_norm(const float* x, const float* weight, float eps, float* out, int64_t n) {
  using Vec = typename V::Vec;
  constexpr int64_t L = V::kLanes;
  Vec squares = V::zero();
  int64_t i = 0;
  for (; i + L <= n; i += L) {
    const Vec a = V::load(x + i);
    squares = V::fma(a, a, squares);
  }
  if (i < n) {
    const Vec a = load_first<V>(x + i, n - i);
    squares = V::fma(a, a, squares);
  }
  const float mean = V::sum(squares) / static_cast<float>(n);
  const Vec scale = V::set(1.0f / __builtin_sqrtf(mean + eps));
  for (i = 0; i + L <= n; i += L) V::store(out + i, V::mul(V::mul(V::load(x + i), scale), V::load(weight + i)));
  if (i < n) {
    const Vec last = V::mul(V::mul(load_first<V>(x + i, n - i), scale), load_first<V>(weight + i, n - i));
    store_first<V>(out + i, last, n - i);
  }
}

template <class V>
typename V::Vec silu_vector(typename V::Vec x) {
  const auto one = V::set(1.0f);
  return V::div(x, V::add(one, exp_vector<V>(V::sub(V::zero(), x))));
}

template <class V>
void silu_multiply(float* gate, const float* up, int64_t n) {
  constexpr int64_t L = V::kLanes;
  int64_t i = 0;
  for (; i + L <= n; i += L) V::store(gate + i, V::mul(silu_vector<V>(V::load(gate + i)), V::load(up + i)));
  if (i < n) {
    const auto last = V::mul(silu_vector<V>(load_first<V>(gate + i, n - i)), load_first<V>(up + i, n - i));
    store_first<V>(gate + i, last, n - i);
  }
}

template <class V>
void exp_shifted(const float* x, float shift, float factor, float* out, int64_t n) {
  constexpr int64_t L = V::kLanes;
  const auto s = V::set(shift);
  const auto f = V::set(factor);
  int64_t i = 0;
  for (; i + L <= n; i += L) V::store(out + i, exp_vector<V>(V::mul(V::sub(V::load(x + i), s), f)));
  if (i < n) store_first<V>(out + i, exp_vector<V>(V::mul(V::sub(load_first<V>(x + i, n - i), s), f)), n - i);
}

}  // namespace
}  // namespace ullage::cpu
