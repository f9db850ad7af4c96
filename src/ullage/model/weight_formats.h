// The formats that checkpoints store matrices in, by name; what each keeps beside its numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ullage/model/dtype.h"
#include "ullage/model/weight_matrix.h"

namespace ullage::model {

WeightFormat plain_format(DType dtype);  // also GGML's block formats
// FP8 with one fp32 scale a tensor, and one more for static activations.
WeightFormat fp8_per_tensor(bool has_static_activations);
// FP8 or INT8 with one fp32 scale an output channel.
WeightFormat per_channel(WeightFormat::Compute compute);
// FP8 with a scale for each block: fp32 (DeepSeek V3), or 8 bits (ue8m0).
WeightFormat fp8_block(int64_t block_rows, int64_t block_columns, int32_t scale_bits);
// Integers of `bits` in groups along the inputs, each with a scale of 16 bits and perhaps a zero point of `bits`.
// group_size -1 = one group an output channel.
WeightFormat grouped_int(int32_t bits, int64_t group_size, bool has_zeros);
// FP4 (e2m1) with an FP8 scale for each 16, and a fp32 scale a tensor and for its activations.
WeightFormat nvfp4(bool has_activations);
// FP4 or FP8 with an 8-bit exponent for each 32 (OCP microscaling).
WeightFormat mxfp(int32_t bits);
// bitsandbytes: NF4 or FP4 in blocks of 64, scales of 32 bits or, quantised again, of 8 with a fp32 for each 256.
WeightFormat bitsandbytes_4bit(bool is_double_quantised);

}  // namespace ullage::model
