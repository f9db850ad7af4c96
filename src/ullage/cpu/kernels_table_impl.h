// Makes the table of kernels for a vector type V. Included by the per-ISA files only.
#pragma once

#include "ullage/cpu/attention_impl.h"
#include "ullage/cpu/matmul_impl.h"

namespace ullage::cpu {
namespace {

template <class V>
constexpr Kernels make_kernels(Isa isa, const char* name) {
  return Kernels{.isa = isa,
                 .name = name,
                 .matmul = &matmul<V>,
                 .attend_partition = &attend_partition<V>,
                 .merge_states = &merge_states<V>,
                 .finish_state = &finish_state<V>,
                 .rms_norm = &rms_norm<V>,
                 .silu_multiply = &silu_multiply<V>,
                 .exp_shifted = &exp_shifted<V>};
}

}  // namespace
}  // namespace ullage::cpu
