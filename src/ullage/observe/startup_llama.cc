// Start-up lines of llama.cpp: llama-server and the programs that share its library, 2023 to 2026.
#include <algorithm>

#include "ullage/observe/log_text.h"

namespace ullage::observe {
namespace {

// "<prefix>: ..." where the function's name begins with `prefix`, whatever stands before it (times, levels).
bool is_from(std::string_view line, std::string_view prefix) {
  const size_t at = line.find(prefix);
  return at != std::string_view::npos && (at == 0 || !is_word(line[at - 1]));
}

// Buffers of devices are summed; those of the host are memory of another kind.
void add_buffer(std::string_view line, std::string_view marker, int64_t number, std::optional<LoggedBytes>& sum) {
  const auto size = bytes_after(line, marker, number);
  const size_t at = line.find(marker);
  if (!size || at == std::string_view::npos) return;
  const std::string_view before = line.substr(0, at);
  if (contains(before, "CPU") || contains(before, "Host") || contains(before, "host")) return;
  if (sum) {
    sum->bytes = sum->bytes + size->bytes;
    sum->half_step = sum->half_step + size->half_step;
  } else {
    sum = size;
  }
}

// "size = 1152.00 MiB ( 8192 cells, 36 layers, 1/1 seqs), K (f16): 576.00 MiB, V (f16): 576.00 MiB". Caches of windows
// have a line of their own, fewer cells.
bool read_cache_size(std::string_view line, int64_t number, bool& is_window, StartupLog& log) {
  const size_t cells_at = line.find(" cells");
  const auto size = bytes_after(line, "size =", number);
  if (!size || cells_at == std::string_view::npos) return false;
  size_t begin = cells_at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  const auto cells = parse_decimal(line.substr(begin));
  if (log.kv_memory) {
    log.kv_memory->bytes = log.kv_memory->bytes + size->bytes;
    log.kv_memory->half_step = log.kv_memory->half_step + size->half_step;
  } else {
    log.kv_memory = size;
  }
  if (cells && is_window) {
    set_once(log.swa_tokens, std::optional<int64_t>(cells->digits), number);
  } else if (cells && size->bytes.value > 0) {
    set_once(log.kv_tokens, std::optional<int64_t>(cells->digits), number);
  }
  is_window = false;
  const auto type = after(line, ", K (");
  if (type) {
    const size_t end = std::min(type->find(')'), type->size());
    set_once(log.kv_dtype, std::optional<std::string>(type->substr(0, std::min<size_t>(end, 32))), number);
  }
  return true;
}

// Cells of the whole cache, tokens of one slot, slots, tokens of a batch. "n_ctx_seq (2048) < n_ctx_train" is a remark.
void read_context(std::string_view line, int64_t number, StartupLog& log) {
  set_once(log.max_model_len, count_field(line, "n_ctx_seq"), number);
  set_once(log.max_model_len, count_field(line, "n_ctx_per_seq"), number);
  set_once(log.num_slots, count_field(line, "n_seq_max"), number);
  set_once(log.max_num_batched_tokens, count_field(line, "n_batch"), number);
}

}  // namespace

bool read_llama_line(std::string_view line, int64_t number, StartupLog& log) {
  if (is_from(line, "build:")) {
    const auto rest = after(line, "build:");
    if (rest) {
      const auto build = parse_decimal(*rest);
      if (build && build->decimals == 0) {
        set_once(log.version, std::optional<std::string>("b" + std::to_string(build->digits)), number);
      }
    }
  }
  if (contains(line, "general.name") && contains(line, "= ")) {
    set_once(log.model, std::optional<std::string>(line.substr(line.rfind("= ") + 2)), number);
  }
  const bool is_tensors = is_from(line, "load_tensors") || is_from(line, "llm_load_tensors");
  if (is_tensors) {
    add_buffer(line, "buffer size =", number, log.weights);
  }
  const bool is_context = is_from(line, "llama_context") || is_from(line, "llama_new_context_with_model") ||
                          is_from(line, "sched_reserve") || is_from(line, "llama_init_from_model");
  if (is_context) {
    read_context(line, number, log);
    add_buffer(line, "compute buffer size =", number, log.activations);
  }
  bool is_cache = is_from(line, "llama_kv_cache") || is_from(line, "llama_memory_recurrent") ||
                  is_from(line, "llama_kv_cache_unified");
  if (is_cache && contains(line, "creating") && contains(line, "SWA KV cache") && !contains(line, "non-SWA")) {
    // The size line of this cache follows; its cells are told here already.
    set_once(log.swa_tokens, count_after(line, "size ="), number);
  }
  if (is_cache) {
    // A cache whose cells are those of the windows' is the windows'.
    bool is_window = false;
    const size_t at = line.find(" cells");
    if (log.swa_tokens && log.kv_tokens && at != std::string_view::npos &&
        log.swa_tokens->value != log.kv_tokens->value) {
      is_window = true;
    }
    read_cache_size(line, number, is_window, log);
  }
  // Before 2025: the context told its cache's size.
  const auto self = is_context ? bytes_after(line, "KV self size", number) : std::nullopt;
  if (self) {
    set_once(log.kv_memory, self);
    const auto type = after(line, ", K (");
    if (type) {
      const size_t end = std::min(type->find(')'), type->size());
      set_once(log.kv_dtype, std::optional<std::string>(type->substr(0, std::min<size_t>(end, 32))), number);
    }
  }
  if (is_context) set_once(log.concurrency_len, count_field(line, "n_ctx"), number);
  const auto slots = count_after(line, "n_slots");
  if (slots) log.num_slots = Logged<int64_t>{*slots, number};
  is_cache = is_cache && contains(line, "MiB");
  return (is_tensors && contains(line, "MiB")) || is_cache || self.has_value() || (is_context && contains(line, "MiB"));
}

}  // namespace ullage::observe
