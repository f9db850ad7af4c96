// What the server says of the one model that it serves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/engine/engine.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/model/checkpoint.h"
#include "ullage/text/chat_template.h"

namespace ullage::serve {

// Bytes of one memory role, for /metrics ("weights", "kv_pool", "workspace", ...).
struct MemoryRole {
  std::string role;
  int64_t bytes = 0;
};

// Plain data, fixed while the server lives.
struct ModelInfo {
  std::vector<std::string>
      names;                  // at least one; the first is the id in answers, all are accepted (--served-model-name)
  std::string root;           // the model's directory or file: clients load their tokenizer from it
  int64_t max_model_len = 0;  // tokens, prompt and output together
  // Rows of the embedding; 0 = as many as the tokenizer has tokens. A tokenizer may have more (tokens that were added
  // without training them): a prompt with one of those cannot be computed.
  int64_t vocab_size = 0;
  engine::EngineOptions engine;          // pool geometry, for limits and /metrics
  memory::KvCapacity capacity;           // as the boot line prints it
  model::GenerationDefaults generation;  // sampling where a request is silent; eos_token_ids end requests
  // The template, or the Error that a chat request gets (no template, none that fits).
  Result<text::ChatTemplate> chat_template = Error{ErrorCode::kUnsupported, "the model has no chat template", ""};
  std::string device_kind = "CPU";      // in the steady log line
  std::string kv_cache_dtype = "auto";  // label of vllm:cache_config_info
  std::vector<MemoryRole> memory;
};

}  // namespace ullage::serve
