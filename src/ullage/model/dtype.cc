#include "ullage/model/dtype.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "ullage/base/check.h"

namespace ullage::model {
namespace {

// In the order of DType.
constexpr DTypeInfo kInfos[] = {
    {"F32", 1, 4},    {"F16", 1, 2},    {"BF16", 1, 2},     {"Q8_0", 32, 34},   {"Q4_0", 32, 18},   {"Q4_1", 32, 20},
    {"Q5_0", 32, 22}, {"Q5_1", 32, 24}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
};
constexpr int kNumDTypes = static_cast<int>(std::size(kInfos));

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

const DTypeInfo& info(DType dtype) {
  const auto index = static_cast<int>(dtype);
  ULLAGE_CHECK(index < kNumDTypes);
  return kInfos[index];
}

Result<DType> parse_dtype(std::string_view name, std::string_view where) {
  std::string_view bare = name;
  if (bare.starts_with("torch.")) bare.remove_prefix(6);
  for (int i = 0; i < kNumDTypes; ++i) {
    if (equals_ignoring_case(bare, kInfos[i].name)) return static_cast<DType>(i);
  }
  if (bare == "bfloat16") return DType::kBF16;
  if (bare == "float16" || bare == "half") return DType::kF16;
  if (bare == "float32" || bare == "float") return DType::kF32;
  std::string known;
  for (const DTypeInfo& each : kInfos) known += (known.empty() ? "" : ", ") + std::string(each.name);
  return Error{ErrorCode::kUnsupported,
               fmt::format("numbers of type \"{}\" are not read; supported are {}", name, known), std::string(where)};
}

int64_t row_bytes(DType dtype, int64_t num_elements) {
  const DTypeInfo& format = info(dtype);
  ULLAGE_DCHECK(num_elements % format.block_elements == 0);
  return num_elements / format.block_elements * format.block_bytes;
}

}  // namespace ullage::model
