// Compiled with -mavx512f and friends where the compiler knows them (cmake/UllageLayers.cmake).
#include "ullage/cpu/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "ullage/cpu/kernels_table_impl.h"
#include "ullage/cpu/simd_avx512.h"

namespace ullage::cpu {

const Kernels* avx512_kernels() {
  static constexpr Kernels kKernels = make_kernels<Avx512>(Isa::kAvx512, "avx512");
  return &kKernels;
}

}  // namespace ullage::cpu
#else
namespace ullage::cpu {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace ullage::cpu
#endif
