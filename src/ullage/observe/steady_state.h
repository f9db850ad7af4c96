// How an engine is doing while it serves: from its log lines, or from a scrape of its /metrics (Prometheus text format
// 0.0.4), DCGM's gauges among them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/memory/engine_profile.h"

namespace ullage::observe {

// One line of an engine's log, or one scrape.
struct SteadySample {
  int64_t line = 0;  // 0: of a scrape
  double running = 0;
  double waiting = 0;
  std::optional<double> kv_usage;         // of the pool, 0 to 1
  std::optional<double> prefix_hit_rate;  // 0 to 1
  std::optional<double> prompt_tokens_per_second;
  std::optional<double> output_tokens_per_second;
  std::optional<double> preemptions;  // since the last line
};

struct SteadyState {
  memory::Engine engine = memory::Engine::kVllm;
  std::vector<SteadySample> samples;  // in the order printed; a scrape is one

  // Means over the samples with something running or waiting; over all when there is none.
  double running = 0;
  double waiting = 0;
  double max_running = 0;
  double max_waiting = 0;
  std::optional<double> kv_usage;
  std::optional<double> max_kv_usage;
  std::optional<double> prefix_hit_rate;
  std::optional<double> prompt_tokens_per_second;
  std::optional<double> output_tokens_per_second;
  std::optional<double> preemptions;  // in all

  // Of a scrape.
  std::optional<double> requests_finished;
  std::optional<double> prompt_tokens;  // totals since the start
  std::optional<double> output_tokens;
  std::optional<double> mean_ttft_seconds;
  std::optional<double> mean_itl_seconds;
  std::optional<double> mean_queue_seconds;
  std::optional<int64_t> num_blocks;
  std::optional<int64_t> block_size;
  std::optional<int64_t> kv_tokens;
  std::optional<double> gpu_memory_utilization;

  // DCGM's gauges, 0 to 1, the mean over devices.
  std::optional<double> dram_active;      // DCGM_FI_PROF_DRAM_ACTIVE
  std::optional<double> tensor_active;    // DCGM_FI_PROF_PIPE_TENSOR_ACTIVE
  std::optional<double> gpu_utilization;  // DCGM_FI_DEV_GPU_UTIL: what nvidia-smi shows
};

// Lines of vLLM ("Avg prompt throughput"), SGLang ("Decode batch", "Prefill batch") and llama.cpp's server among
// others. kUnsupported when there is none: says what was looked for.
Result<SteadyState> read_steady_log(std::string_view text, std::string_view where);

// A scrape, or several concatenated (an engine's and DCGM's exporter's). kCorrupt for a line that breaks the format,
// kUnsupported when no metric of a known engine or of DCGM is in it.
Result<SteadyState> read_metrics(std::string_view text, std::string_view where);

// Whether a text is a scrape rather than a log: it has lines "# HELP" or "# TYPE".
bool is_metrics(std::string_view text);

// `later` with what both know taken as rates between them, `seconds` apart: two scrapes of one engine. kInvalidArgument
// for 0 or fewer seconds.
Result<SteadyState> between(const SteadyState& earlier, const SteadyState& later, double seconds);

}  // namespace ullage::observe
