#include "ullage/model/quantization.h"

#include "ullage/model/model_shape.h"

namespace ullage::model {

WeightFormat format_of(const ModelShape& shape, std::string_view /*module*/, WeightRole /*role*/) {
  const DTypeInfo& dtype = info(shape.weight_dtype);
  WeightFormat format;
  format.element_bits = dtype.block_bytes * 8 / dtype.block_elements;
  format.compute = shape.weight_dtype == DType::kF32 ? WeightFormat::Compute::kF32 : WeightFormat::Compute::kBF16;
  if (dtype.block_elements > 1) {
    // GGML's blocks: what is over whole bits is their scales.
    format.group_rows = 1;
    format.group_columns = dtype.block_elements;
    format.scale_bits = dtype.block_bytes * 8 - format.element_bits * dtype.block_elements;
  }
  return format;
}

}  // namespace ullage::model
