// The flags that say which model runs, on what, with how much memory; shared by serve and generate.
#pragma once

#include <cstdint>
#include <string>

#include "ullage/base/result.h"

namespace CLI {
class App;
}

namespace ullage::cli {

// As given on the command line; sizes and counts stay text until they are parsed with their flag's name.
struct EngineArgs {
  std::string model;             // path, name in the Hugging Face cache, or "stories260K" (bundled)
  std::string executor = "cpu";  // cpu | modelled
  std::string device = "h100";   // modelled only
  std::string dtype = "auto";    // auto | float32 | float, which all mean the same
  std::string tokenizer;         // path of another tokenizer; empty = the model's own
  std::string kv_cache_dtype = "auto";
  std::string value_cache_dtype;  // llama-server's -ctv: empty, or the same
  std::string kv_cache_memory;    // bytes; empty = by memory_utilization
  double memory_utilization = 0;  // share of the available memory; 0 = 0.5 on the CPU, 0.92 on a modelled device
  std::string max_model_len = "auto";
  std::string max_num_seqs;
  std::string max_num_batched_tokens;
  std::string num_blocks_override;
  std::string block_size = "16";
  std::string max_queue_len = "1024";
  int64_t threads = 0;
  int64_t tensor_parallel_size = 1;
  uint64_t seed = 0;
  bool has_prefix_caching = true;
  bool has_chunked_prefill = true;
  std::string prefix_match = "token";  // token | block
  std::string scheduling_policy = "fcfs";
  bool recomputes_past = false;  // generate --no-kv-cache
  std::string decision_log;      // path; empty = none
  bool is_paranoid = false;
};

// Adds the flags (vLLM's names first, llama-server's as aliases) to a command.
void add_engine_options(CLI::App& command, EngineArgs& args);

}  // namespace ullage::cli
