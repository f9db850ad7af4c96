// A scrape of /metrics: Prometheus' text format 0.0.4.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/quote.h"
#include "ullage/observe/log_text.h"
#include "ullage/observe/steady_summary.h"

namespace ullage::observe {
namespace {

struct Sample {
  std::string_view name;
  std::string_view labels;  // without braces
  double value = 0;
};

bool is_name(char c) { return is_letter_or_digit(c) || c == '_' || c == ':'; }

// The closing brace of labels that begin at `at`, quotes respected; npos when there is none.
size_t closing_brace(std::string_view line, size_t at) {
  bool is_quoted = false;
  for (size_t i = at; i < line.size(); ++i) {
    if (is_quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      is_quoted = !is_quoted;
    } else if (line[i] == '}' && !is_quoted) {
      return i;
    }
  }
  return std::string_view::npos;
}

// A value: decimal, with an exponent perhaps, +Inf, -Inf or NaN.
std::optional<double> parse_value(std::string_view text) {
  if (text == "+Inf" || text == "Inf" || text == "-Inf" || text == "NaN" || text == "Nan") return 0.0;
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  // At most 17 digits carry a double; more are an exporter's noise.
  const size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  std::string_view mantissa = text.substr(0, exponent_at);
  const bool is_negative = !mantissa.empty() && mantissa.front() == '-';
  if (is_negative) mantissa.remove_prefix(1);
  double value = 0;
  double scale = 1;
  bool has_digit = false;
  bool is_fraction = false;
  for (const char c : mantissa) {
    if (c == '.' && !is_fraction) {
      is_fraction = true;
    } else if (c >= '0' && c <= '9') {
      has_digit = true;
      value = value * 10 + (c - '0');
      if (is_fraction) scale *= 10;
      if (scale > 1e18) break;
    } else {
      return std::nullopt;
    }
  }
  if (!has_digit) return std::nullopt;
  value /= scale;
  if (exponent_at < text.size()) {
    std::string_view rest = text.substr(exponent_at + 1);
    if (!rest.empty() && rest.front() == '+') rest.remove_prefix(1);
    const auto exponent = parse_decimal(rest);
    if (!exponent || exponent->length != rest.size() || exponent->decimals > 0) return std::nullopt;
    const int64_t power = std::clamp<int64_t>(exponent->digits, -400, 400);
    for (int64_t i = 0; i < power; ++i) value *= 10;
    for (int64_t i = 0; i > power; --i) value /= 10;
  }
  if (!std::isfinite(value)) value = 0;
  return is_negative ? -value : value;
}

Result<Sample> parse_sample(std::string_view line, std::string_view where, int64_t number) {
  const auto broken = [&](const char* what) {
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}; a line is a name, labels in braces, a value: {}", what, quote(line.substr(0, 80))),
                 fmt::format("{}:{}", where, number)};
  };
  Sample sample;
  size_t at = 0;
  while (at < line.size() && is_name(line[at])) ++at;
  if (at == 0) return broken("no metric's name");
  sample.name = line.substr(0, at);
  while (at < line.size() && line[at] == ' ') ++at;
  if (at < line.size() && line[at] == '{') {
    const size_t close = closing_brace(line, at);
    if (close == std::string_view::npos) return broken("labels without an end");
    sample.labels = line.substr(at + 1, close - at - 1);
    at = close + 1;
  }
  while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
  const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
  const auto value = parse_value(line.substr(at, end - at));
  if (!value) return broken("no value");
  sample.value = *value;
  return sample;
}

// Sums and counts of the samples of one name, over engines, ranks and devices.
struct Total {
  double sum = 0;
  int64_t count = 0;
};
using Totals = std::map<std::string, Total, std::less<>>;

std::optional<double> sum_of(const Totals& totals, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto at = totals.find(std::string_view(name));
    if (at != totals.end()) return at->second.sum;
  }
  return std::nullopt;
}

std::optional<double> mean_of(const Totals& totals, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto at = totals.find(std::string_view(name));
    if (at != totals.end()) return at->second.sum / static_cast<double>(at->second.count);
  }
  return std::nullopt;
}

std::optional<double> ratio(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b && *b > 0 ? std::optional<double>(*a / *b) : std::nullopt;
}

// A histogram's mean.
std::optional<double> histogram_mean(const Totals& totals, std::string_view name) {
  const auto sum = totals.find(std::string(name) + "_sum");
  const auto count = totals.find(std::string(name) + "_count");
  if (sum == totals.end() || count == totals.end() || count->second.sum <= 0) return std::nullopt;
  return sum->second.sum / count->second.sum;
}

// "num_gpu_blocks="1234"" among the labels of vllm:cache_config_info.
void read_cache_config(std::string_view labels, SteadyState& state) {
  const auto positive = [&](const char* key) {
    const auto value = count_field(labels, key);
    return value && *value > 0 ? value : std::nullopt;
  };
  state.num_blocks = positive("num_gpu_blocks");
  state.block_size = positive("block_size");
  state.kv_tokens = positive("kv_cache_size_tokens");
  state.gpu_memory_utilization = number_field(labels, "gpu_memory_utilization");
}

void read_vllm(const Totals& totals, SteadyState& state, SteadySample& sample) {
  sample.running = sum_of(totals, {"vllm:num_requests_running"}).value_or(0);
  sample.waiting = sum_of(totals, {"vllm:num_requests_waiting"}).value_or(0);
  sample.kv_usage = mean_of(totals, {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"});
  sample.preemptions = sum_of(totals, {"vllm:num_preemptions_total", "vllm:num_preemptions"});
  sample.prefix_hit_rate =
      ratio(sum_of(totals, {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"}),
            sum_of(totals, {"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"}));
  state.prompt_tokens = sum_of(totals, {"vllm:prompt_tokens_total"});
  state.output_tokens = sum_of(totals, {"vllm:generation_tokens_total"});
  state.requests_finished = sum_of(totals, {"vllm:request_success_total"});
  state.mean_ttft_seconds = histogram_mean(totals, "vllm:time_to_first_token_seconds");
  state.mean_itl_seconds = histogram_mean(totals, "vllm:inter_token_latency_seconds");
  if (!state.mean_itl_seconds) state.mean_itl_seconds = histogram_mean(totals, "vllm:time_per_output_token_seconds");
  state.mean_queue_seconds = histogram_mean(totals, "vllm:request_queue_time_seconds");
}

void read_sglang(const Totals& totals, SteadyState& state, SteadySample& sample) {
  state.engine = memory::Engine::kSglang;
  sample.running = sum_of(totals, {"sglang:num_running_reqs"}).value_or(0);
  sample.waiting = sum_of(totals, {"sglang:num_queue_reqs"}).value_or(0);
  sample.kv_usage = mean_of(totals, {"sglang:token_usage"});
  sample.output_tokens_per_second = sum_of(totals, {"sglang:gen_throughput"});
  sample.prefix_hit_rate = mean_of(totals, {"sglang:cache_hit_rate"});
  sample.preemptions = sum_of(totals, {"sglang:num_retracted_requests_total", "sglang:num_retracted_reqs"});
  state.prompt_tokens = sum_of(totals, {"sglang:prompt_tokens_total"});
  state.output_tokens = sum_of(totals, {"sglang:generation_tokens_total"});
  state.requests_finished = sum_of(totals, {"sglang:num_requests_total"});
  state.mean_ttft_seconds = histogram_mean(totals, "sglang:time_to_first_token_seconds");
  state.mean_itl_seconds = histogram_mean(totals, "sglang:inter_token_latency_seconds");
  if (!state.mean_itl_seconds) state.mean_itl_seconds = histogram_mean(totals, "sglang:time_per_output_token_seconds");
  state.mean_queue_seconds = histogram_mean(totals, "sglang:queue_time_seconds");
  const auto tokens = mean_of(totals, {"sglang:max_total_num_tokens"});
  if (tokens && *tokens >= 1 && *tokens < 1e15) state.kv_tokens = static_cast<int64_t>(*tokens);
}

void read_llama(const Totals& totals, SteadyState& state, SteadySample& sample) {
  state.engine = memory::Engine::kLlamaCpp;
  sample.running = sum_of(totals, {"llamacpp:requests_processing"}).value_or(0);
  sample.waiting = sum_of(totals, {"llamacpp:requests_deferred"}).value_or(0);
  sample.kv_usage = mean_of(totals, {"llamacpp:kv_cache_usage_ratio"});
  sample.output_tokens_per_second = sum_of(totals, {"llamacpp:predicted_tokens_seconds"});
  sample.prompt_tokens_per_second = sum_of(totals, {"llamacpp:prompt_tokens_seconds"});
  state.prompt_tokens = sum_of(totals, {"llamacpp:prompt_tokens_total"});
  state.output_tokens = sum_of(totals, {"llamacpp:tokens_predicted_total"});
}

void read_dcgm(const Totals& totals, SteadyState& state) {
  state.dram_active = mean_of(totals, {"DCGM_FI_PROF_DRAM_ACTIVE"});
  state.tensor_active = mean_of(totals, {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"});
  const auto percent = mean_of(totals, {"DCGM_FI_DEV_GPU_UTIL"});
  if (percent) state.gpu_utilization = std::clamp(*percent / 100, 0.0, 1.0);
}

}  // namespace

bool is_metrics(std::string_view text) {
  bool found = false;
  for_each_line(text.substr(0, 65536), [&](std::string_view line, int64_t) {
    found = found || line.substr(0, 7) == "# HELP " || line.substr(0, 7) == "# TYPE ";
  });
  return found;
}

Result<SteadyState> read_metrics(std::string_view text, std::string_view where) {
  Totals totals;
  SteadyState state;
  std::optional<Error> error;
  bool has_vllm = false;
  bool has_sglang = false;
  bool has_llama = false;
  bool has_dcgm = false;
  bool is_ullage = false;
  for_each_line(text, [&](std::string_view line, int64_t number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    if (error || line.empty() || line.front() == '#') return;
    const Result<Sample> sample = parse_sample(line, where, number);
    if (!sample) {
      error = sample.error();
      return;
    }
    const std::string_view name = sample->name;
    has_vllm = has_vllm || name.starts_with("vllm:");
    has_sglang = has_sglang || name.starts_with("sglang:");
    has_llama = has_llama || name.starts_with("llamacpp:");
    has_dcgm = has_dcgm || name.starts_with("DCGM_FI_");
    is_ullage = is_ullage || name.starts_with("ullage_");
    if (name == "vllm:cache_config_info") read_cache_config(sample->labels, state);
    // Buckets are many and say nothing that the sums do not; gauges of ratios are means.
    if (name.ends_with("_bucket") || totals.size() > 20000) return;
    Total& total = totals[std::string(name)];
    total.sum += sample->value;
    ++total.count;
  });
  if (error) return *std::move(error);
  if (!has_vllm && !has_sglang && !has_llama && !has_dcgm) {
    return Error{ErrorCode::kUnsupported,
                 "no metric of vLLM (vllm:...), SGLang (sglang:...), llama.cpp (llamacpp:...), Ullage or DCGM "
                 "(DCGM_FI_...) is in it; give what the engine answers on /metrics",
                 std::string(where)};
  }
  SteadySample sample;
  if (has_vllm) read_vllm(totals, state, sample);
  if (!has_vllm && has_sglang) read_sglang(totals, state, sample);
  if (!has_vllm && !has_sglang && has_llama) read_llama(totals, state, sample);
  if (is_ullage) state.engine = memory::Engine::kUllage;
  if (has_vllm || has_sglang || has_llama) {
    state.samples.push_back(sample);
    summarise(state);
  }
  read_dcgm(totals, state);
  return state;
}

}  // namespace ullage::observe
