// Eight lanes with AVX2, FMA and F16C.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace ullage::cpu {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  static constexpr int kQueryTile = 6;  // 6 x 2 running sums, 2 keys and 1 query in 16 registers
  static constexpr int kTileVectors = 2;
  using Vec = __m256;

  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set(float x) { return _mm256_set1_ps(x); }
  static Vec load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  static void store(void* p, Vec a) { _mm256_storeu_ps(static_cast<float*>(p), a); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
  static Vec keep_from(Vec x, Vec limit, Vec a) { return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), a); }
  static Vec power_of_two(Vec n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
  }
  static float sum(Vec a) {
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
  }
  // The same additions in the same order as sum(), four at once.
  static void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
    const __m128 a4 = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 b4 = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 c4 = _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1));
    const __m128 d4 = _mm_add_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
    const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a4, b4), _mm_unpackhi_ps(a4, b4));  // a02 b02 a13 b13
    const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c4, d4), _mm_unpackhi_ps(c4, d4));
    _mm_storeu_ps(out, _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
  }
  static float maximum(Vec a) {
    const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
  }

  static __m128i load_bytes16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static Vec load_bf16(const void* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_bytes16(p)), 16));
  }
  static Vec load_f16(const void* p) { return _mm256_cvtph_ps(load_bytes16(p)); }
  static Vec load_i8(const void* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))));
  }
  static Vec set_f16(const void* p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof(half));
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
  }
  static void set_f16_pair(const void* p, Vec* first, Vec* second) {
    int32_t halves;
    std::memcpy(&halves, p, sizeof(halves));
    const __m128 pair = _mm_cvtph_ps(_mm_cvtsi32_si128(halves));
    *first = _mm256_broadcastss_ps(pair);
    *second = _mm256_broadcastss_ps(_mm_movehdup_ps(pair));
  }
  // 16 bytes: the low halves are numbers 0 to 15, the high halves 16 to 31.
  static void load_nibbles(const void* p, Vec* out) {
    const auto* bytes = static_cast<const unsigned char*>(p);
    const __m256i first = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
    const __m256i second = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + 8)));
    const __m256i mask = _mm256_set1_epi32(15);
    out[0] = _mm256_cvtepi32_ps(_mm256_and_si256(first, mask));
    out[1] = _mm256_cvtepi32_ps(_mm256_and_si256(second, mask));
    out[2] = _mm256_cvtepi32_ps(_mm256_srli_epi32(first, 4));
    out[3] = _mm256_cvtepi32_ps(_mm256_srli_epi32(second, 4));
  }
};

}  // namespace
}  // namespace ullage::cpu
