// Eight lanes in plain C++: what every processor can do, and the reference for the others.
#pragma once

#include <cmath>
#include <cstring>

#include "ullage/model/half.h"

namespace ullage::cpu {
namespace {

struct Portable {
  static constexpr int kLanes = 8;
  static constexpr int kQueryTile = 4;  // query rows of attention's inner tile
  static constexpr int kTileVectors = 2;
  struct Vec {
    float lane[kLanes];
  };

  template <class F>
  static Vec each(F f) {
    Vec r;
    for (int i = 0; i < kLanes; ++i) r.lane[i] = f(i);
    return r;
  }
  static Vec zero() {
    return each([](int) { return 0.0f; });
  }
  static Vec set(float x) {
    return each([x](int) { return x; });
  }
  static Vec load(const void* p) {
    Vec r;
    std::memcpy(r.lane, p, sizeof(r.lane));
    return r;
  }
  static void store(void* p, const Vec& a) { std::memcpy(p, a.lane, sizeof(a.lane)); }
  static Vec add(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Vec sub(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static Vec mul(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Vec div(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  // Fused where the processor fuses (std::fma in software would be a hundred times slower).
  static Vec fma(const Vec& a, const Vec& b, const Vec& c) {
#if defined(FP_FAST_FMAF)
    return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
#else
    return each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
#endif
  }
  // The second operand when either is NaN, as x86 has it.
  static Vec max(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vec min(const Vec& a, const Vec& b) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  // a where x >= limit (or NaN), 0 elsewhere.
  static Vec keep_from(const Vec& x, const Vec& limit, const Vec& a) {
    return each([&](int i) { return x.lane[i] < limit.lane[i] ? 0.0f : a.lane[i]; });
  }
  // 2^n for a whole n in [-126, 127].
  static Vec power_of_two(const Vec& n) {
    return each([&](int i) {
      const float clean = n.lane[i] == n.lane[i] ? n.lane[i] : 0.0f;  // a NaN has no integer
      return std::bit_cast<float>(static_cast<uint32_t>(static_cast<int32_t>(clean) + 127) << 23);
    });
  }
  static float sum(const Vec& a) {
    const float s0 = (a.lane[0] + a.lane[4]) + (a.lane[2] + a.lane[6]);
    const float s1 = (a.lane[1] + a.lane[5]) + (a.lane[3] + a.lane[7]);
    return s0 + s1;
  }
  static void sum4(const Vec& a, const Vec& b, const Vec& c, const Vec& d, float* out) {
    out[0] = sum(a);
    out[1] = sum(b);
    out[2] = sum(c);
    out[3] = sum(d);
  }
  static float maximum(const Vec& a) {
    float m = a.lane[0];
    for (int i = 1; i < kLanes; ++i) m = a.lane[i] > m ? a.lane[i] : m;
    return m;
  }

  static uint16_t half_at(const void* p, int i) {
    uint16_t h;
    std::memcpy(&h, static_cast<const char*>(p) + 2 * i, sizeof(h));
    return h;
  }
  static Vec load_bf16(const void* p) {
    return each([p](int i) { return model::bf16_to_f32(half_at(p, i)); });
  }
  static Vec load_f16(const void* p) {
    return each([p](int i) { return model::f16_to_f32(half_at(p, i)); });
  }
  static Vec load_i8(const void* p) {
    return each([p](int i) { return static_cast<float>(static_cast<const signed char*>(p)[i]); });
  }
  static Vec set_f16(const void* p) { return set(model::f16_to_f32(half_at(p, 0))); }
  static void set_f16_pair(const void* p, Vec* first, Vec* second) {
    *first = set_f16(p);
    *second = set_f16(static_cast<const char*>(p) + 2);
  }
  // 16 bytes: the low halves are numbers 0 to 15, the high halves 16 to 31.
  static void load_nibbles(const void* p, Vec* out) {
    const auto* bytes = static_cast<const unsigned char*>(p);
    for (int v = 0; v < 4; ++v) {
      out[v] = each([&](int i) {
        const int index = v * kLanes + i;
        const unsigned byte = bytes[index % 16];
        return static_cast<float>(index < 16 ? byte & 15u : byte >> 4);
      });
    }
  }
};

}  // namespace
}  // namespace ullage::cpu
