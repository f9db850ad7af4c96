// Compiled with -mavx2 -mfma -mf16c where the compiler knows them (cmake/UllageLayers.cmake).
#include "ullage/cpu/kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "ullage/cpu/kernels_table_impl.h"
#include "ullage/cpu/simd_avx2.h"

namespace ullage::cpu {

const Kernels* avx2_kernels() {
  static constexpr Kernels kKernels = make_kernels<Avx2>(Isa::kAvx2, "avx2");
  return &kKernels;
}

}  // namespace ullage::cpu
#else
namespace ullage::cpu {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace ullage::cpu
#endif
