// The parts of quantization configs that several methods share.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "ullage/base/json_fwd.h"
#include "ullage/base/result.h"
#include "ullage/model/quantization.h"
#include "ullage/model/weight_matrix.h"

namespace ullage::model {

struct IntScheme {
  int32_t bits = 4;
  int64_t group_size = 128;  // -1 = one group an output channel
};
// The first of each list of keys that is there; 4 bits in groups of 128 when none is.
Result<IntScheme> read_int_scheme(const Json& config, std::initializer_list<const char*> bits,
                                  std::initializer_list<const char*> group_size, std::string_view where);

// [rows, columns]
Result<std::array<int64_t, 2>> read_block_size(const Json& list, std::string_view where);

// One group of compressed-tensors: {"weights": {"num_bits", "type", "strategy", "group_size", "symmetric"},
// "input_activations"}.
Result<WeightFormat> read_weight_scheme(const Json& group, std::string_view where);

// modelopt's quant_algo: "FP8", "NVFP4", "W4A16_NVFP4", ...
Result<WeightFormat> modelopt_format(std::string_view algorithm, int64_t group_size, std::string_view where);

Result<void> read_quark(const Json& config, std::string_view where, Quantization& quantization);
Result<void> read_torchao(const Json& config, std::string_view where, Quantization& quantization);

}  // namespace ullage::model
