// What a start-up log of vLLM, SGLang or llama.cpp says: flags, memory terms, capacity, each with the line it was found
// on. Several versions' wordings are known; what a log does not print stays empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/memory/engine_profile.h"

namespace ullage::observe {

// A value and the number of the line that printed it (from 1).
template <class T>
struct Logged {
  T value{};
  int64_t line = 0;
};

// Bytes as printed: the true number lies within half a step of the last printed digit.
struct LoggedBytes {
  Bytes bytes;
  Bytes half_step;  // "12.20 GiB": 0.005 GiB
  int64_t line = 0;
};

// What one rank printed of its KV memory, where several do.
struct RankMemory {
  std::string rank;  // "TP0", "Worker_TP1"
  LoggedBytes kv_memory;
};

struct StartupLog {
  memory::Engine engine = memory::Engine::kVllm;
  std::optional<Logged<std::string>> version;
  std::optional<Logged<std::string>> model;
  std::optional<Logged<std::string>> dtype;         // "bfloat16"
  std::optional<Logged<std::string>> quantization;  // "awq"
  std::optional<Logged<std::string>> kv_dtype;      // as printed: "auto", "fp8", "torch.bfloat16", "f16"
  std::optional<Logged<std::string>> speculative;   // the method, or the whole setting as printed

  // Flags and settings.
  std::optional<Logged<int64_t>> tensor_parallel;
  std::optional<Logged<int64_t>> pipeline_parallel;
  std::optional<Logged<int64_t>> data_parallel;
  std::optional<Logged<int64_t>> decode_context_parallel;
  std::optional<Logged<bool>> has_expert_parallel;
  std::optional<Logged<int64_t>> max_model_len;
  std::optional<Logged<int64_t>> block_size;
  std::optional<Logged<int64_t>> max_num_seqs;
  std::optional<Logged<int64_t>> max_num_batched_tokens;
  std::optional<Logged<int64_t>> num_speculative_tokens;
  std::optional<Logged<double>> gpu_memory_utilization;
  std::optional<Logged<bool>> is_eager;
  std::optional<Logged<bool>> has_prefix_caching;

  // Memory, of one rank.
  std::optional<LoggedBytes> device_memory;  // as the driver reports it
  std::optional<LoggedBytes> free_memory;    // at the start
  std::optional<LoggedBytes> requested;      // utilisation x capacity
  std::optional<LoggedBytes> weights;
  std::optional<LoggedBytes> activations;  // peak
  std::optional<LoggedBytes> non_torch;
  std::optional<LoggedBytes> graphs_estimated;
  std::optional<LoggedBytes> graphs;
  std::optional<LoggedBytes> kv_memory;  // the least of the ranks that print theirs
  std::vector<RankMemory> ranks;         // every rank's KV memory, in the order printed

  // Capacity.
  std::optional<Logged<int64_t>> num_blocks;
  std::optional<Logged<int64_t>> kv_tokens;
  std::optional<Logged<double>> max_concurrency;
  std::optional<Logged<int64_t>> concurrency_len;       // the length that the concurrency is printed for
  std::optional<Logged<int64_t>> attention_block_size;  // hybrids: what a state's page asked for
  std::optional<Logged<double>> state_padding_percent;
  std::optional<Logged<int64_t>> padding_layers;
  std::optional<Logged<int64_t>> swa_tokens;  // a pool of their own for windows (SGLang, llama.cpp)
  std::optional<Logged<int64_t>> num_slots;   // llama.cpp: requests that it runs at once

  // A start that was refused: one request is larger than the pool.
  std::optional<LoggedBytes> refused_needed;
  std::optional<Logged<int64_t>> refused_longest;  // the length that would fit

  int64_t num_lines = 0;
};

// `text` may hold other lines before, between and after; colour codes and prefixes of ranks are skipped. kUnsupported
// when no line is one of a known engine's start: the sentence says what was looked for. `where` names the file.
Result<StartupLog> read_startup_log(std::string_view text, std::string_view where);

// The version of a vLLM whose log does not print it, by its wording: from 0.27 on tokens and concurrency share a line
// (""; the newest); before, tokens that are no whole blocks were derived from the concurrency ("0.25"), others counted
// ("0.19"). `kv_tokens`: 0 when not printed, which says nothing ("").
std::string_view vllm_version_by_wording(int64_t kv_tokens, bool shares_line);

}  // namespace ullage::observe
