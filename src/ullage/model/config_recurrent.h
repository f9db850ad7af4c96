// Parts of the readers of models with recurrent states, and the readers themselves (rows of config_readers.cc).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ullage/model/config_reader.h"

namespace ullage::model {

inline constexpr int64_t kMaxConvKernel = 64;
inline constexpr int64_t kMaxStateSize = 65536;

// Of the state itself: what the file asks for, or the model's own. vLLM's "auto" does the same.
Result<DType> read_state_dtype(const ConfigFields& text, DType model_dtype);

// A list with one word a layer, of two kinds: true where it is one of `yes`.
Result<std::vector<bool>> read_two_types(const ConfigFields& text, const char* key, int64_t num_layers,
                                         std::initializer_list<std::string_view> yes,
                                         std::initializer_list<std::string_view> no);

Result<void> read_qwen3_next(const ConfigSource& source, ModelShape& shape);
Result<void> read_qwen3_5(const ConfigSource& source, ModelShape& shape);
Result<void> read_qwen3_5_moe(const ConfigSource& source, ModelShape& shape);
Result<void> read_kimi_linear(const ConfigSource& source, ModelShape& shape);
Result<void> read_minimax_text(const ConfigSource& source, ModelShape& shape);
Result<void> read_lfm2(const ConfigSource& source, ModelShape& shape);
Result<void> read_lfm2_moe(const ConfigSource& source, ModelShape& shape);
Result<void> read_nemotron_h(const ConfigSource& source, ModelShape& shape);
Result<void> read_jamba(const ConfigSource& source, ModelShape& shape);
Result<void> read_granite_hybrid(const ConfigSource& source, ModelShape& shape);
Result<void> read_bamba(const ConfigSource& source, ModelShape& shape);
Result<void> read_falcon_h1(const ConfigSource& source, ModelShape& shape);
Result<void> read_mamba(const ConfigSource& source, ModelShape& shape);  // and FalconMamba
Result<void> read_mamba2(const ConfigSource& source, ModelShape& shape);
// Refused, each with the reason.
Result<void> refuse_deepseek_v4(const ConfigSource& source, ModelShape& shape);
Result<void> refuse_zamba(const ConfigSource& source, ModelShape& shape);

}  // namespace ullage::model
