// Start-up lines of vLLM, from 0.6 (V0) to 0.29.
#include <algorithm>

#include "ullage/observe/log_text.h"

namespace ullage::observe {
namespace {

// "(Worker_TP0 pid=12) INFO ...": "Worker_TP0".
std::string rank_of(std::string_view line) {
  if (line.empty() || line.front() != '(') return "";
  const size_t end = std::min(line.find_first_of(" )"), line.size());
  const std::string_view name = line.substr(1, end - 1);
  return name.size() <= 64 ? std::string(name) : "";
}

void keep_kv_memory(std::string_view line, const std::optional<LoggedBytes>& value, StartupLog& log) {
  if (!value) return;
  log.ranks.push_back(RankMemory{rank_of(line), *value});
  if (!log.kv_memory || value->bytes < log.kv_memory->bytes) log.kv_memory = value;
}

// "(v0.10.0) with config", "version 0.10.0".
std::optional<std::string> version_after(std::string_view line, std::string_view marker) {
  const auto rest = after(line, marker);
  if (!rest || rest->empty() || rest->front() < '0' || rest->front() > '9') return std::nullopt;
  const size_t end = std::min(rest->find_first_of(") ,\t"), rest->size());
  return std::string(rest->substr(0, std::min<size_t>(end, 64)));
}

// Flags by the names that the engine's configuration, its non-default arguments and its command line share.
void read_flags(std::string_view line, int64_t number, StartupLog& log) {
  set_once(log.model, text_field(line, "model_tag"), number);
  set_once(log.model, text_field(line, "model"), number);
  set_once(log.dtype, dtype_field(line), number);
  set_once(log.quantization, text_field(line, "quantization"), number);
  set_once(log.kv_dtype, text_field(line, "kv_cache_dtype"), number);
  set_once(log.max_model_len, count_field(line, "max_seq_len"), number);
  set_once(log.max_model_len, count_field(line, "max_model_len"), number);
  set_once(log.tensor_parallel, count_field(line, "tensor_parallel_size"), number);
  set_once(log.pipeline_parallel, count_field(line, "pipeline_parallel_size"), number);
  set_once(log.data_parallel, count_field(line, "data_parallel_size"), number);
  set_once(log.decode_context_parallel, count_field(line, "decode_context_parallel_size"), number);
  set_once(log.has_expert_parallel, bool_field(line, "enable_expert_parallel"), number);
  set_once(log.block_size, count_field(line, "block_size"), number);
  set_once(log.max_num_seqs, count_field(line, "max_num_seqs"), number);
  set_once(log.max_num_batched_tokens, count_field(line, "max_num_batched_tokens"), number);
  set_once(log.gpu_memory_utilization, number_field(line, "gpu_memory_utilization"), number);
  set_once(log.is_eager, bool_field(line, "enforce_eager"), number);
  set_once(log.has_prefix_caching, bool_field(line, "enable_prefix_caching"), number);
  set_once(log.speculative, text_field(line, "speculative_config"), number);
  set_once(log.num_speculative_tokens, count_field(line, "num_speculative_tokens"), number);
  set_once(log.num_speculative_tokens, count_field(line, "num_spec_tokens"), number);
}

// "Free memory on device (78.57/79.18 GiB) on startup. Desired GPU memory utilization is (0.9, 71.26 GiB). Actual usage
// is 56.93 GiB for weight, 5.58 GiB for peak activation, ..."
void read_summary(std::string_view line, int64_t number, StartupLog& log) {
  const auto rest = after(line, "Free memory on device");
  if (!rest && !contains(line, "Actual usage is")) return;
  const size_t slash = rest ? rest->find('/') : std::string_view::npos;
  if (slash < 48) {  // not npos either
    set_once(log.device_memory, bytes_after(rest->substr(slash), "/", number));
    const size_t open = rest->substr(0, slash).rfind('(');
    const auto free = parse_decimal(rest->substr(open == std::string_view::npos ? 0 : open + 1));
    if (free) set_once(log.free_memory, to_bytes(*free, kGiB, number));
  }
  const auto desired = after(line, "memory utilization is");
  const auto share = desired ? parse_decimal(*desired) : std::nullopt;
  if (share) {
    set_once(log.gpu_memory_utilization, std::optional<double>(share->value()), number);
    set_once(log.requested, bytes_after(desired->substr(share->length), ",", number));
  }
  set_once(log.activations, bytes_before(line, " for peak activation", number));
  set_once(log.non_torch, bytes_before(line, " for non-torch memory", number));
  set_once(log.graphs, bytes_before(line, " for CUDAGraph memory", number));
  set_once(log.weights, bytes_before(line, " for weight", number));
}

// V0's profile, in its two wordings, and the debug lines of V1's.
bool read_profile(std::string_view line, int64_t number, StartupLog& log) {
  set_once(log.weights, bytes_after(line, "model weights take", number));
  set_once(log.weights, bytes_after(line, "model weights", number));
  set_once(log.weights, bytes_after(line, "weights memory:", number));
  set_once(log.non_torch, bytes_after(line, "non_torch_memory takes", number));
  set_once(log.non_torch, bytes_after(line, "non_torch_memory", number));
  set_once(log.activations, bytes_after(line, "activation peak memory takes", number));
  set_once(log.activations, bytes_after(line, "activation peak memory", number));
  set_once(log.activations, bytes_after(line, "torch peak memory increase:", number));
  const auto rest = bytes_after(line, "reserved for KV Cache is", number);
  const auto size = contains(line, "non_torch_memory") ? bytes_after(line, "kv_cache_size=", number) : std::nullopt;
  keep_kv_memory(line, rest ? rest : size, log);
  if (contains(line, "total_gpu_memory")) {
    set_once(log.device_memory, bytes_after(line, "total_gpu_memory", number));
    set_once(log.gpu_memory_utilization, number_after(line, "gpu_memory_utilization"), number);
    set_once(log.requested, bytes_after(line, ") =", number));
  }
  return rest.has_value() || size.has_value() || contains(line, "total_gpu_memory");
}

bool read_refusal(std::string_view line, int64_t number, StartupLog& log) {
  const auto needed = bytes_before(line, " KV cache is needed", number);
  if (!needed) return false;
  set_once(log.refused_needed, needed);
  set_once(log.max_model_len, count_after(line, "max seq len"), number);
  keep_kv_memory(line, bytes_after(line, "available KV cache memory", number), log);
  set_once(log.refused_longest, count_after(line, "estimated maximum model length is"), number);
  return true;
}

// A log may hold several starts: the last one counts.
void forget_capacity(StartupLog& log) {
  StartupLog fresh;
  fresh.engine = log.engine;
  fresh.version = log.version;
  log = std::move(fresh);
}

bool has_capacity(const StartupLog& log) { return log.kv_tokens || log.num_blocks || log.refused_needed; }

// A start's first lines may have been cut off: weights that load after the capacity was printed are the next start's,
// unless another data-parallel engine loads its own.
bool loads_anew(std::string_view line, const StartupLog& log) {
  if (!has_capacity(log) || contains(line, "DP")) return false;
  return contains(line, "Model loading took") || contains(line, "Loading model weights took");
}

}  // namespace

bool read_vllm_line(std::string_view line, int64_t number, StartupLog& log) {
  if (contains(line, "LLM engine (v") && contains(line, "with config")) {
    if (has_capacity(log)) forget_capacity(log);
    log.version = std::nullopt;
    set_once(log.version, version_after(line, "LLM engine (v"), number);
    read_flags(line, number, log);
    return true;
  }
  if (contains(line, "non-default args") || contains(line, "args: Namespace(")) {
    if (has_capacity(log)) forget_capacity(log);
    read_flags(line, number, log);
    return true;
  }
  if (loads_anew(line, log)) forget_capacity(log);
  set_once(log.version, version_after(line, "vLLM API server version"), number);
  set_once(log.version, version_after(line, "vLLM server version"), number);
  if (contains(line, "Chunked prefill is enabled with")) {
    set_once(log.max_num_batched_tokens, count_field(line, "max_num_batched_tokens"), number);
  }
  set_once(log.weights, bytes_after(line, "Model loading took", number));
  set_once(log.weights, bytes_after(line, "Loading model weights took", number));
  set_once(log.graphs_estimated, bytes_after(line, "Estimated CUDA graph memory", number));
  if (contains(line, "Graph capturing finished")) set_once(log.graphs, bytes_after(line, "took", number));
  keep_kv_memory(line, bytes_after(line, "Available KV cache memory:", number), log);
  set_once(log.attention_block_size, count_after(line, "Setting attention block size to"), number);
  set_once(log.state_padding_percent, number_after(line, "Padding mamba page size by"), number);
  if (contains(line, "padding layers")) set_once(log.padding_layers, count_after(line, "Add"), number);
  for (const char* wording : {"dcp_world_size", "cp_world_size"}) {
    if (contains(line, "Multiplying the GPU KV cache size by")) {
      set_once(log.decode_context_parallel, count_after(line, wording), number);
    }
  }
  read_summary(line, number, log);
  const bool is_profile = read_profile(line, number, log);
  const bool is_refusal = read_refusal(line, number, log);

  const auto tokens = count_after(line, "GPU KV cache size:");
  set_once(log.kv_tokens, tokens, number);
  set_once(log.kv_tokens, count_after(line, "tokens that can be stored in KV cache"), number);
  const auto concurrency = after(line, "Maximum concurrency for");
  if (concurrency) {
    const auto length = parse_decimal(*concurrency);
    if (length) set_once(log.concurrency_len, std::optional<int64_t>(length->digits), number);
    set_once(log.max_concurrency, number_after(*concurrency, "per request"), number);
  }
  std::optional<int64_t> blocks;
  for (const char* wording : {"GPU blocks:", "cuda blocks:", "num_gpu_blocks is:"}) {
    if (!blocks) blocks = count_after(line, wording);
  }
  set_once(log.num_blocks, blocks, number);
  set_once(log.num_blocks, count_after(line, "num_gpu_blocks_override="), number);
  return is_profile || is_refusal || tokens.has_value() || concurrency.has_value() || blocks.has_value() ||
         contains(line, "Available KV cache memory") || contains(line, "Estimated CUDA graph memory") ||
         contains(line, "vLLM API server version") || contains(line, "tokens that can be stored in KV cache");
}

std::string_view vllm_version_by_wording(int64_t kv_tokens, bool shares_line) {
  if (kv_tokens < 1 || shares_line) return "";
  return kv_tokens % 16 != 0 ? "0.25" : "0.19";
}

}  // namespace ullage::observe
