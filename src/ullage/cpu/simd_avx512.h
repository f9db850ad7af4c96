// Sixteen lanes with AVX-512 F, BW, DQ and VL.
#pragma once

#include "ullage/cpu/simd_avx2.h"

namespace ullage::cpu {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  static constexpr int kQueryTile = 12;  // 12 x 1 running sums: a block of 16 keys is one register
  static constexpr int kTileVectors = 1;
  using Vec = __m512;

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec set(float x) { return _mm512_set1_ps(x); }
  static Vec load(const void* p) { return _mm512_loadu_ps(p); }
  static void store(void* p, Vec a) { _mm512_storeu_ps(p, a); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
  static Vec keep_from(Vec x, Vec limit, Vec a) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), a);
  }
  static Vec power_of_two(Vec n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
  }
  static __m256 fold(Vec a) { return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }
  static float sum(Vec a) { return Avx2::sum(fold(a)); }
  static void sum4(Vec a, Vec b, Vec c, Vec d, float* out) { Avx2::sum4(fold(a), fold(b), fold(c), fold(d), out); }
  static float maximum(Vec a) {
    return Avx2::maximum(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
  }

  static __m256i load_bytes32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static Vec load_bf16(const void* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_bytes32(p)), 16));
  }
  static Vec load_f16(const void* p) { return _mm512_cvtph_ps(load_bytes32(p)); }
  static Vec load_i8(const void* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(Avx2::load_bytes16(p))); }
  static Vec set_f16(const void* p) { return _mm512_set1_ps(_mm256_cvtss_f32(Avx2::set_f16(p))); }
  static void set_f16_pair(const void* p, Vec* first, Vec* second) {
    *first = set_f16(p);
    *second = set_f16(static_cast<const char*>(p) + 2);
  }
  static void load_nibbles(const void* p, Vec* out) {
    const __m512i bytes = _mm512_cvtepu8_epi32(Avx2::load_bytes16(p));
    out[0] = _mm512_cvtepi32_ps(_mm512_and_si512(bytes, _mm512_set1_epi32(15)));
    out[1] = _mm512_cvtepi32_ps(_mm512_srli_epi32(bytes, 4));
  }
};

}  // namespace
}  // namespace ullage::cpu
