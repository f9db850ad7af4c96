// Block layouts: GGML's block_q4_0 ... block_q6_K (ggml/src/ggml-common.h). Scales are binary16; K-quants hold 256
// elements in a block, the others 32.
#include "ullage/model/dequant.h"

#include <bit>
#include <cstring>

#include "ullage/base/check.h"
#include "ullage/model/half.h"

namespace ullage::model {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read without swapping");

uint16_t load_u16(const uint8_t* at) {
  uint16_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint32_t load_u32(const uint8_t* at) {
  uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float load_scale(const uint8_t* at) { return f16_to_f32(load_u16(at)); }

float to_float(int value) { return static_cast<float>(value); }

void read_q8_0(const uint8_t* block, float* out) {
  const float d = load_scale(block);
  for (int i = 0; i < 32; ++i) out[i] = to_float(static_cast<int8_t>(block[2 + i])) * d;
}

// Byte i holds elements i (low nibble) and i + 16 (high nibble).
void read_q4_0(const uint8_t* block, float* out) {
  const float d = load_scale(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * to_float((block[2 + i] & 15) - 8);
    out[i + 16] = d * to_float((block[2 + i] >> 4) - 8);
  }
}

void read_q4_1(const uint8_t* block, float* out) {
  const float d = load_scale(block);
  const float m = load_scale(block + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * to_float(block[4 + i] & 15) + m;
    out[i + 16] = d * to_float(block[4 + i] >> 4) + m;
  }
}

// As Q4_0 with the elements' fifth bits in one little-endian word: bit i for element i.
void read_q5_0(const uint8_t* block, float* out) {
  const float d = load_scale(block);
  const uint32_t high = load_u32(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int low = (block[6 + i] & 15) | static_cast<int>(((high >> i) & 1u) << 4);
    const int up = (block[6 + i] >> 4) | static_cast<int>(((high >> (i + 16)) & 1u) << 4);
    out[i] = d * to_float(low - 16);
    out[i + 16] = d * to_float(up - 16);
  }
}

void read_q5_1(const uint8_t* block, float* out) {
  const float d = load_scale(block);
  const float m = load_scale(block + 2);
  const uint32_t high = load_u32(block + 4);
  for (int i = 0; i < 16; ++i) {
    const int low = (block[8 + i] & 15) | static_cast<int>(((high >> i) & 1u) << 4);
    const int up = (block[8 + i] >> 4) | static_cast<int>(((high >> (i + 16)) & 1u) << 4);
    out[i] = d * to_float(low) + m;
    out[i + 16] = d * to_float(up) + m;
  }
}

// Six-bit scale and minimum of sub-block j of 8, packed in 12 bytes: the first four of each in the low six bits of
// bytes 0-3 and 4-7; of the last four the low nibbles in bytes 8-11 and the upper two bits on top of bytes 0-7.
struct ScaleMin {
  int scale = 0;
  int min = 0;
};
ScaleMin scale_min(const uint8_t* packed, int j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4), (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4)};
}

// d, dmin, 12 bytes of scales, 128 bytes of nibbles: 32 bytes hold sub-block 2k (low) and 2k + 1 (high).
void read_q4_k(const uint8_t* block, float* out) {
  const float d = load_scale(block);
  const float dmin = load_scale(block + 2);
  const uint8_t* nibbles = block + 16;
  for (int j = 0; j < 8; ++j) {
    const ScaleMin s = scale_min(block + 4, j);
    const float scale = d * to_float(s.scale);
    const float min = dmin * to_float(s.min);
    for (int i = 0; i < 32; ++i) {
      const int q = (nibbles[(j / 2) * 32 + i] >> (4 * (j % 2))) & 15;
      out[j * 32 + i] = scale * to_float(q) - min;
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits before the nibbles: bit j of byte i for element i of sub-block j.
void read_q5_k(const uint8_t* block, float* out) {
  const float d = load_scale(block);
  const float dmin = load_scale(block + 2);
  const uint8_t* high = block + 16;
  const uint8_t* nibbles = block + 48;
  for (int j = 0; j < 8; ++j) {
    const ScaleMin s = scale_min(block + 4, j);
    const float scale = d * to_float(s.scale);
    const float min = dmin * to_float(s.min);
    for (int i = 0; i < 32; ++i) {
      const int q = ((nibbles[(j / 2) * 32 + i] >> (4 * (j % 2))) & 15) | (((high[i] >> j) & 1) << 4);
      out[j * 32 + i] = scale * to_float(q) - min;
    }
  }
}

// 128 bytes of low nibbles, 64 of upper two bits, 16 signed scales, d. Each half of the block holds four runs of 32:
// nibbles of runs 0 and 2 share 32 bytes, as do 1 and 3; one byte of upper bits serves one element of each run.
void read_q6_k(const uint8_t* block, float* out) {
  const float d = load_scale(block + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = block + 64 * half;
    const uint8_t* high = block + 128 + 32 * half;
    for (int run = 0; run < 4; ++run) {
      for (int i = 0; i < 32; ++i) {
        const int nibble = (low[(run % 2) * 32 + i] >> (4 * (run / 2))) & 15;
        const int q = (nibble | (((high[i] >> (2 * run)) & 3) << 4)) - 32;
        const int index = 128 * half + 32 * run + i;
        const float scale = d * to_float(static_cast<int8_t>(block[192 + index / 16]));
        out[index] = scale * to_float(q);
      }
    }
  }
}

}  // namespace

void dequantize_row(DType dtype, const std::byte* data, float* out, int64_t num_elements) {
  const DTypeInfo& format = info(dtype);
  ULLAGE_DCHECK(num_elements % format.block_elements == 0);
  const auto* block = reinterpret_cast<const uint8_t*>(data);
  const int64_t num_blocks = num_elements / format.block_elements;
  for (int64_t i = 0; i < num_blocks; ++i, block += format.block_bytes, out += format.block_elements) {
    switch (dtype) {
      case DType::kF32:
        std::memcpy(out, block, sizeof *out);
        break;
      case DType::kF16:
        *out = f16_to_f32(load_u16(block));
        break;
      case DType::kBF16:
        *out = bf16_to_f32(load_u16(block));
        break;
      case DType::kQ8_0:
        read_q8_0(block, out);
        break;
      case DType::kQ4_0:
        read_q4_0(block, out);
        break;
      case DType::kQ4_1:
        read_q4_1(block, out);
        break;
      case DType::kQ5_0:
        read_q5_0(block, out);
        break;
      case DType::kQ5_1:
        read_q5_1(block, out);
        break;
      case DType::kQ4_K:
        read_q4_k(block, out);
        break;
      case DType::kQ5_K:
        read_q5_k(block, out);
        break;
      case DType::kQ6_K:
        read_q6_k(block, out);
        break;
      default:
        ULLAGE_CHECK(is_computed_with(dtype));  // loaders refuse the others
    }
  }
}

}  // namespace ullage::model
