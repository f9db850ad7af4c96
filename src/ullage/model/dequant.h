// The reference reading of every stored format: plain and exact. Kernels in cpu/ have faster paths and are tested
// against this one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ullage/model/dtype.h"

namespace ullage::model {

// Writes `num_elements` floats from their stored form. `data` may be unaligned; it holds row_bytes(dtype,
// num_elements). Each element is computed in binary32 in the order that GGML's formulas give (multiply, then add),
// unfused. REQUIRES: num_elements is a multiple of info(dtype).block_elements.
void dequantize_row(DType dtype, const std::byte* data, float* out, int64_t num_elements);

}  // namespace ullage::model
