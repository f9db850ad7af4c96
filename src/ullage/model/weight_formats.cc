#include "ullage/model/weight_formats.h"

namespace ullage::model {

using Compute = WeightFormat::Compute;

WeightFormat plain_format(DType dtype) {
  const DTypeInfo& stored = info(dtype);
  WeightFormat format;
  if (stored.block_elements == 1) {
    format.element_bits = stored.block_bytes * 8;
    format.compute = dtype == DType::kF32 ? Compute::kF32 : Compute::kBF16;
    return format;
  }
  // A block's bits that do not divide evenly over its elements are its scales.
  format.element_bits = stored.block_bytes * 8 / stored.block_elements;
  format.group_rows = 1;
  format.group_columns = stored.block_elements;
  format.scale_bits = stored.block_bytes * 8 - format.element_bits * stored.block_elements;
  return format;
}

WeightFormat fp8_per_tensor(bool has_static_activations) {
  WeightFormat format;
  format.element_bits = 8;
  format.tensor_bytes = has_static_activations ? 8 : 4;
  format.compute = Compute::kFP8;
  return format;
}

WeightFormat per_channel(Compute compute) {
  WeightFormat format;
  format.element_bits = 8;
  format.group_rows = 1;
  format.group_columns = -1;
  format.scale_bits = 32;
  format.compute = compute;
  return format;
}

WeightFormat fp8_block(int64_t block_rows, int64_t block_columns, int32_t scale_bits) {
  WeightFormat format;
  format.element_bits = 8;
  format.group_rows = static_cast<int32_t>(block_rows);
  format.group_columns = static_cast<int32_t>(block_columns);
  format.scale_bits = scale_bits;
  format.compute = Compute::kFP8;
  return format;
}

WeightFormat grouped_int(int32_t bits, int64_t group_size, bool has_zeros) {
  WeightFormat format;
  format.element_bits = bits;
  format.group_rows = 1;
  format.group_columns = static_cast<int32_t>(group_size);
  format.scale_bits = 16;
  format.zero_bits = has_zeros ? bits : 0;
  return format;
}

WeightFormat nvfp4(bool has_activations) {
  WeightFormat format;
  format.element_bits = 4;
  format.group_rows = 1;
  format.group_columns = 16;
  format.scale_bits = 8;
  format.tensor_bytes = has_activations ? 8 : 4;
  format.compute = has_activations ? Compute::kFP4 : Compute::kBF16;
  return format;
}

WeightFormat mxfp(int32_t bits) {
  WeightFormat format;
  format.element_bits = bits;
  format.group_rows = 1;
  format.group_columns = 32;
  format.scale_bits = 8;
  format.compute = bits == 8 ? Compute::kFP8 : Compute::kBF16;
  return format;
}

WeightFormat bitsandbytes_4bit(bool is_double_quantised) {
  WeightFormat format;
  format.element_bits = 4;
  format.group_rows = 1;
  format.group_columns = 64;
  format.scale_bits = 32;
  if (is_double_quantised) {
    format.scale_bits = 8;
    format.groups_per_super_group = 256;
    format.super_scale_bits = 32;
    format.tensor_bytes = 4;  // the mean that was taken off the scales
  }
  return format;
}

}  // namespace ullage::model
