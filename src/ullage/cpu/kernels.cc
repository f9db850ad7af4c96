#include "ullage/cpu/kernels.h"

#include <algorithm>
#include <string>

#include "ullage/cpu/blocking.h"

namespace ullage::cpu {
namespace {

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

}  // namespace

int64_t matmul_scratch_floats(int64_t columns) {
  const int64_t width = padded_width(columns);
  return panel_rows(width) * width + kMaxTokenBlock * kTileRows * kMaxLanes + kRowPadding;
}

int64_t attention_scratch_floats(int64_t group, int64_t head_dim) {
  const int64_t rows = std::max(kQueryRows, group);
  return rows * kScoreStride + rows * attention_state_floats(head_dim) * 2;
}

Result<const Kernels*> select_kernels(Isa isa) {
  const Kernels* avx512 = has_avx512() ? avx512_kernels() : nullptr;
  const Kernels* avx2 = has_avx2() ? avx2_kernels() : nullptr;
  switch (isa) {
    case Isa::kAuto:
      return avx512 != nullptr ? avx512 : avx2 != nullptr ? avx2 : portable_kernels();
    case Isa::kPortable:
      return portable_kernels();
    case Isa::kAvx2:
      if (avx2 != nullptr) return avx2;
      return Error{ErrorCode::kUnsupported,
                   "this processor or build has no AVX2 with FMA and F16C; use auto or portable", "isa"};
    case Isa::kAvx512:
      if (avx512 != nullptr) return avx512;
      return Error{ErrorCode::kUnsupported,
                   "this processor or build has no AVX-512 (F, BW, DQ and VL); use auto, avx2 or portable", "isa"};
  }
  return Error{ErrorCode::kInternal, "unknown instruction set", "isa"};
}

Result<Isa> parse_isa(std::string_view text, std::string_view where) {
  if (text == "auto") return Isa::kAuto;
  if (text == "portable") return Isa::kPortable;
  if (text == "avx2") return Isa::kAvx2;
  if (text == "avx512") return Isa::kAvx512;
  return Error{ErrorCode::kInvalidArgument,
               "found instruction set \"" + std::string(text) + "\"; use auto, portable, avx2 or avx512",
               std::string(where)};
}

}  // namespace ullage::cpu
