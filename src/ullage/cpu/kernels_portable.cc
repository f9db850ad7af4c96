#include "ullage/cpu/kernels_table_impl.h"
#include "ullage/cpu/simd_portable.h"

namespace ullage::cpu {

const Kernels* portable_kernels() {
  static constexpr Kernels kKernels = make_kernels<Portable>(Isa::kPortable, "portable");
  return &kKernels;
}

}  // namespace ullage::cpu
