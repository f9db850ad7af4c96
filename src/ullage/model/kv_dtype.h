// How keys and values are stored in the cache.
#pragma once

#include <cstdint>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/model/dtype.h"

namespace ullage::model {

// Names as vLLM's --kv-cache-dtype has them; llama.cpp's cache types beside them.
enum class KvDType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kFP8E4M3,
  kFP8E5M2,
  kINT8PerTokenHead,  // two fp32 scales a token and head
  kINT4PerTokenHead,
  kNVFP4,     // one fp8 scale for each 16
  kFP8DsMla,  // MLA: 656 bytes a token (512 fp8 + 4 fp32 scales + 64 bf16)
  kQ8_0,      // llama.cpp
  kQ4_0,
};

const char* kv_dtype_name(KvDType dtype);  // "bf16", "fp8_e4m3", ...
// "fp8" is fp8_e4m3; "auto" is the caller's to resolve (from the checkpoint) and an Error here.
Result<KvDType> parse_kv_dtype(std::string_view name, std::string_view where);
// Of plain numbers. REQUIRES: kF32, kF16 or kBF16.
KvDType to_kv_dtype(DType dtype);
// Bytes of one head's `dim` numbers of one token, scales included.
int64_t kv_head_bytes(KvDType dtype, int64_t dim);

}  // namespace ullage::model
