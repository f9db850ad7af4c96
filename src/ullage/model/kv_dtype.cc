#include "ullage/model/kv_dtype.h"

#include <string>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"

namespace ullage::model {
namespace {

// In the order of KvDType.
constexpr const char* kNames[] = {
    "f32",   "f16",        "bf16", "fp8_e4m3", "fp8_e5m2", "int8_per_token_head", "int4_per_token_head",
    "nvfp4", "fp8_ds_mla", "q8_0", "q4_0",
};
constexpr size_t kNumKvDTypes = std::size(kNames);

}  // namespace

const char* kv_dtype_name(KvDType dtype) {
  const auto index = static_cast<size_t>(dtype);
  ULLAGE_CHECK(index < kNumKvDTypes);
  return kNames[index];
}

Result<KvDType> parse_kv_dtype(std::string_view name, std::string_view where) {
  for (size_t i = 0; i < kNumKvDTypes; ++i) {
    if (name == kNames[i]) return static_cast<KvDType>(i);
  }
  if (name == "fp8") return KvDType::kFP8E4M3;
  if (name == "bfloat16") return KvDType::kBF16;
  if (name == "float16" || name == "half" || name == "fp16") return KvDType::kF16;
  if (name == "float32" || name == "float" || name == "fp32") return KvDType::kF32;
  if (name == "fp4_e2m1") return KvDType::kNVFP4;  // SGLang's name
  if (name == "int8") return KvDType::kINT8PerTokenHead;
  if (name == "int4") return KvDType::kINT4PerTokenHead;
  std::string known;
  for (const char* each : kNames) known += (known.empty() ? "" : ", ") + std::string(each);
  return Error{ErrorCode::kUnsupported,
               fmt::format("keys and values cannot be stored as {}; known are {}", quote(name), known),
               std::string(where)};
}

KvDType to_kv_dtype(DType dtype) {
  ULLAGE_CHECK(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16);
  if (dtype == DType::kF32) return KvDType::kF32;
  return dtype == DType::kF16 ? KvDType::kF16 : KvDType::kBF16;
}

int64_t kv_head_bytes(KvDType dtype, int64_t dim) {
  switch (dtype) {
    case KvDType::kF32:
      return 4 * dim;
    case KvDType::kF16:
    case KvDType::kBF16:
      return 2 * dim;
    case KvDType::kFP8E4M3:
    case KvDType::kFP8E5M2:
      return dim;
    case KvDType::kINT8PerTokenHead:
      return dim + 4;  // an fp32 scale
    case KvDType::kINT4PerTokenHead:
      return ceil_div(dim, 2) + 4;
    case KvDType::kNVFP4:
      return ceil_div(dim, 2) + ceil_div(dim, 16);
    case KvDType::kFP8DsMla: {
      // The last 64 numbers, which are rotated, stay BF16; the others are FP8 with an fp32 scale for each 128.
      const int64_t rotated = dim < 64 ? dim : 64;
      return dim - rotated + 4 * ceil_div(dim - rotated, 128) + 2 * rotated;
    }
    case KvDType::kQ8_0:
      return ceil_div(dim, 32) * 34;
    case KvDType::kQ4_0:
      return ceil_div(dim, 32) * 18;
  }
  return 2 * dim;
}

}  // namespace ullage::model
