// What a logged start should print, given its logged KV memory. Inside observe/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ullage/memory/kv_layout.h"
#include "ullage/memory/vllm_rules.h"
#include "ullage/model/model_shape.h"

namespace ullage::observe {

// A start as a row or a log states it. Empty and 0: not stated.
struct LoggedStart {
  std::string version;
  bool is_sglang = false;
  bool is_v0 = false;  // vLLM before V1, when the version is not stated
  model::KvDType kv_dtype = model::KvDType::kBF16;
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  int64_t block_size = 0;
  int64_t max_model_len = 0;
  int64_t max_num_batched_tokens = 0;
  bool has_large_memory = true;  // 70 GiB or more, not an A100: decides the default token budget
  std::optional<bool> has_prefix_caching;
  int64_t num_speculative_tokens = 0;
  bool has_draft_layers = false;  // MTP: the model's own draft layers keep KV
  int64_t eagle_layers = 0;       // of a draft model with layers like the model's
};

struct LoggedLayout {
  memory::KvLayout layout;
  int64_t bytes_per_block = 0;  // of the stage where a block takes most
  memory::InFlight in_flight;
  bool prints_derived_tokens = true;
};
Result<LoggedLayout> layout_of(const model::ModelShape& shape, const LoggedStart& start);

// Tokens as that version prints them.
int64_t printed_tokens(const LoggedLayout& logged, int64_t num_blocks, int64_t max_model_len);

// "auto" is the weights' 16- or 32-bit dtype, unless the checkpoint itself says what its cache holds.
Result<model::KvDType> logged_kv_dtype(std::string_view kv_dtype, std::string_view dtype, std::string_view checkpoint,
                                       std::string_view where);

}  // namespace ullage::observe
