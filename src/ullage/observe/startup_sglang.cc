// Start-up lines of SGLang, from 0.4 on.
#include <algorithm>

#include "ullage/observe/log_text.h"

namespace ullage::observe {
namespace {

void read_server_args(std::string_view line, int64_t number, StartupLog& log) {
  set_once(log.model, text_field(line, "model_path"), number);
  set_once(log.dtype, dtype_field(line), number);
  set_once(log.quantization, text_field(line, "quantization"), number);
  set_once(log.kv_dtype, text_field(line, "kv_cache_dtype"), number);
  set_once(log.max_model_len, count_field(line, "context_length"), number);
  set_once(log.tensor_parallel, count_field(line, "tp_size"), number);
  set_once(log.pipeline_parallel, count_field(line, "pp_size"), number);
  set_once(log.data_parallel, count_field(line, "dp_size"), number);
  set_once(log.block_size, count_field(line, "page_size"), number);
  set_once(log.max_num_seqs, count_field(line, "max_running_requests"), number);
  set_once(log.max_num_batched_tokens, count_field(line, "chunked_prefill_size"), number);
  set_once(log.gpu_memory_utilization, number_field(line, "mem_fraction_static"), number);
  set_once(log.speculative, text_field(line, "speculative_algorithm"), number);
  set_once(log.num_speculative_tokens, count_field(line, "speculative_num_steps"), number);
  const auto radix_off = bool_field(line, "disable_radix_cache");
  if (radix_off) set_once(log.has_prefix_caching, std::optional<bool>(!*radix_off), number);
  set_once(log.is_eager, bool_field(line, "disable_cuda_graph"), number);
}

// "[2025-10-16 09:06:22 TP5] ...": "TP5".
std::string rank_of(std::string_view line) {
  const size_t close = line.find(']');
  if (line.empty() || line.front() != '[' || close == std::string_view::npos || close > 64) return "";
  const size_t space = line.substr(0, close).rfind(' ');
  const std::string_view name = line.substr(space + 1, close - space - 1);
  return name.substr(0, 2) == "TP" || name.substr(0, 2) == "DP" || name.substr(0, 2) == "PP" ? std::string(name) : "";
}

// "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 45942, K size: 3.51 GB, V size: 3.51 GB". A latent cache has
// one size. A draft's own pool comes after the model's: the first line of a rank counts.
bool read_pool(std::string_view line, int64_t number, StartupLog& log) {
  if (!contains(line, "KV Cache is allocated")) return false;
  set_once(log.kv_tokens, count_after(line, "#tokens"), number);
  const auto dtype = contains(line, "dtype:") ? text_field(line, "dtype") : std::nullopt;
  if (dtype) log.kv_dtype = Logged<std::string>{*dtype, number};
  auto size = bytes_after(line, "K size", number);
  const auto values = bytes_after(line, "V size", number);
  if (size && values) {
    size->bytes = size->bytes + values->bytes;
    size->half_step = size->half_step + values->half_step;
  }
  if (!size) size = bytes_after(line, "KV size", number);
  if (!size) return true;
  const std::string rank = rank_of(line);
  for (const RankMemory& known : log.ranks) {
    if (known.rank == rank) return true;
  }
  log.ranks.push_back(RankMemory{rank, *size});
  if (!log.kv_memory || size->bytes < log.kv_memory->bytes) log.kv_memory = size;
  return true;
}

}  // namespace

bool read_sglang_line(std::string_view line, int64_t number, StartupLog& log) {
  if (contains(line, "ServerArgs(")) {
    read_server_args(line, number, log);
    return true;
  }
  set_once(log.version, text_field(line, "sglang_version"), number);
  const bool is_pool = read_pool(line, number, log);
  const bool is_weights = contains(line, "Load weight end.");
  if (is_weights) {
    set_once(log.weights, bytes_after(line, "mem usage", number));
    set_once(log.dtype, dtype_field(line), number);
    set_once(log.quantization, text_field(line, "quant"), number);
  }
  if (contains(line, "Load weight begin.")) set_once(log.free_memory, bytes_after(line, "avail mem", number));
  const bool is_graph = contains(line, "Capture cuda graph end.") || contains(line, "Capture CUDA graph end.");
  if (is_graph) set_once(log.graphs, bytes_after(line, "mem usage", number));
  const bool is_windows = contains(line, "swa_layer_tokens") || contains(line, "SWA");
  if (is_windows) {
    set_once(log.swa_tokens, count_field(line, "swa_layer_tokens"), number);
    set_once(log.swa_tokens, count_after(line, "swa_layer_tokens"), number);
    set_once(log.kv_tokens, count_after(line, "full_layer_tokens"), number);
  }
  const bool is_limits = contains(line, "max_total_num_tokens=") && contains(line, "context_len=");
  if (is_limits) {
    const auto tokens = count_field(line, "max_total_num_tokens");
    if (tokens) log.kv_tokens = Logged<int64_t>{*tokens, number};  // the least over ranks, what is admitted by
    set_once(log.max_model_len, count_field(line, "context_len"), number);
    set_once(log.concurrency_len, count_field(line, "context_len"), number);
    const auto running = count_field(line, "max_running_requests");
    if (running) log.max_num_seqs = Logged<int64_t>{*running, number};
    const auto chunk = count_field(line, "chunked_prefill_size");
    if (chunk && *chunk > 0) log.max_num_batched_tokens = Logged<int64_t>{*chunk, number};
  }
  return is_pool || is_weights || is_graph || is_limits;
}

}  // namespace ullage::observe
