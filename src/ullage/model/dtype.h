// How numbers are stored: plain types and GGML's block-quantised formats.
#pragma once

#include <cstdint>
#include <string_view>

#include "ullage/base/result.h"

namespace ullage::model {

// Up to kQ6_K they are computed with; the others are counted only, to plan for files that hold them.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_1,
  kQ2_K,
  kQ3_K,
  kQ8_K,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ4_NL,
  kIQ4_XS,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
  kI8,
  kI16,
  kI32,
  kI64,
  kF64,
};
inline constexpr int kNumDTypes = static_cast<int>(DType::kF64) + 1;
constexpr bool is_computed_with(DType dtype) { return dtype <= DType::kQ6_K; }

// A row of `block_elements * n` numbers is stored in `block_bytes * n` bytes (1 element for plain types).
struct DTypeInfo {
  const char* name;  // "F32", "Q4_K": GGML's spelling
  int32_t block_elements;
  int32_t block_bytes;
};
const DTypeInfo& info(DType dtype);
// Of those that are computed with. Accepts GGML's names, safetensors' ("BF16") and config.json's ("bfloat16",
// "float16", "float32").
Result<DType> parse_dtype(std::string_view name, std::string_view where);
// Bytes of a row of `num_elements`. REQUIRES: num_elements is a multiple of block_elements.
int64_t row_bytes(DType dtype, int64_t num_elements);

}  // namespace ullage::model
