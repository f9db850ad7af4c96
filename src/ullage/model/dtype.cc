#include "ullage/model/dtype.h"

#include <algorithm>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/check.h"

namespace ullage::model {
namespace {

// In the order of DType.
constexpr DTypeInfo kInfos[] = {
    {"F32", 1, 4},        {"F16", 1, 2},       {"BF16", 1, 2},       {"Q8_0", 32, 34},     {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},     {"Q5_0", 32, 22},    {"Q5_1", 32, 24},     {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},   {"Q8_1", 32, 36},    {"Q2_K", 256, 84},    {"Q3_K", 256, 110},   {"Q8_K", 256, 292},
    {"IQ1_S", 256, 50},   {"IQ1_M", 256, 56},  {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},  {"IQ2_S", 256, 82},
    {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110}, {"IQ4_NL", 32, 18},   {"IQ4_XS", 256, 136}, {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},   {"MXFP4", 32, 17},   {"NVFP4", 64, 36},    {"I8", 1, 1},         {"I16", 1, 2},
    {"I32", 1, 4},        {"I64", 1, 8},       {"F64", 1, 8},
};
static_assert(std::size(kInfos) == kNumDTypes);
constexpr int kNumComputedWith = static_cast<int>(DType::kQ6_K) + 1;

}  // namespace

const DTypeInfo& info(DType dtype) {
  const auto index = static_cast<int>(dtype);
  ULLAGE_CHECK(index < kNumDTypes);
  return kInfos[index];
}

Result<DType> parse_dtype(std::string_view name, std::string_view where) {
  std::string_view bare = name;
  if (bare.starts_with("torch.")) bare.remove_prefix(6);
  for (int i = 0; i < kNumComputedWith; ++i) {
    if (equals_ignoring_case(bare, kInfos[i].name)) return static_cast<DType>(i);
  }
  if (bare == "bfloat16") return DType::kBF16;
  if (bare == "float16" || bare == "half") return DType::kF16;
  if (bare == "float32" || bare == "float") return DType::kF32;
  std::string known;
  for (int i = 0; i < kNumComputedWith; ++i) known += (known.empty() ? "" : ", ") + std::string(kInfos[i].name);
  return Error{ErrorCode::kUnsupported,
               fmt::format("numbers of type \"{}\" are not read; supported are {}", name, known), std::string(where)};
}

int64_t row_bytes(DType dtype, int64_t num_elements) {
  const DTypeInfo& format = info(dtype);
  ULLAGE_DCHECK(num_elements % format.block_elements == 0);
  return num_elements / format.block_elements * format.block_bytes;
}

}  // namespace ullage::model
