#include "ullage/plan/scenario.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/quote.h"

namespace ullage::plan {
namespace {

// What any number of tokens, requests or devices may be at most: products of three of them stay inside 63 bits.
constexpr int64_t kMaxCount = int64_t{1} << 20;
constexpr int64_t kMaxTokens = int64_t{1} << 30;

struct NamedPrecision {
  std::string_view name;
  WeightPrecision precision;
};
constexpr std::array<NamedPrecision, 18> kPrecisions{{
    {"auto", WeightPrecision::kAsStored},
    {"as-stored", WeightPrecision::kAsStored},
    {"f32", WeightPrecision::kF32},
    {"fp32", WeightPrecision::kF32},
    {"float32", WeightPrecision::kF32},
    {"bf16", WeightPrecision::kBF16},
    {"fp16", WeightPrecision::kBF16},
    {"f16", WeightPrecision::kBF16},
    {"bfloat16", WeightPrecision::kBF16},
    {"float16", WeightPrecision::kBF16},
    {"fp8", WeightPrecision::kFP8},
    {"int8", WeightPrecision::kINT8},
    {"int4", WeightPrecision::kINT4},
    {"awq", WeightPrecision::kINT4},
    {"awq4", WeightPrecision::kINT4},
    {"gptq", WeightPrecision::kINT4},
    {"fp4", WeightPrecision::kFP4},
    {"nvfp4", WeightPrecision::kFP4},
}};

Error bad(std::string message, std::string where) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(where)};
}

Result<void> check_count(int64_t value, int64_t low, int64_t high, const char* flag) {
  if (value >= low && value <= high) return {};
  return bad(fmt::format("is {}; give {} to {}", value, low, high), flag);
}

// Written so that a NaN fails, too.
Result<void> check_number(double value, double low, double high, const char* flag) {
  if (value >= low && value <= high) return {};
  return bad(fmt::format("is {}; give {} to {}", value, low, high), flag);
}

Result<void> check_share(double value, const char* flag) {
  if (value > 0 && value <= 1) return {};
  return bad(fmt::format("is {}; give a share above 0 and up to 1, as 0.9", value), flag);
}

Result<void> check_requests(const Scenario& s) {
  constexpr auto kTokens = static_cast<double>(kMaxTokens);
  ULLAGE_TRY_VOID(check_number(s.prompt_tokens, 0, kTokens, "--prompt"));
  ULLAGE_TRY_VOID(check_number(s.output_tokens, 0, kTokens, "--output"));
  if (!(s.prompt_tokens + s.output_tokens >= 1)) {
    return bad(fmt::format("a request of {} prompt and {} output tokens is empty; give at least one token",
                           s.prompt_tokens, s.output_tokens),
               "--prompt");
  }
  ULLAGE_TRY_VOID(check_number(s.p95_prompt_tokens, 0, kTokens, "--p95-prompt"));
  ULLAGE_TRY_VOID(check_number(s.p95_output_tokens, 0, kTokens, "--p95-output"));
  if (s.p95_prompt_tokens > 0 && s.p95_prompt_tokens < s.prompt_tokens) {
    return bad(fmt::format("is {}, below the mean of {}; give the length that 95 of 100 prompts stay within",
                           s.p95_prompt_tokens, s.prompt_tokens),
               "--p95-prompt");
  }
  if (s.p95_output_tokens > 0 && s.p95_output_tokens < s.output_tokens) {
    return bad(fmt::format("is {}, below the mean of {}; give the length that 95 of 100 outputs stay within",
                           s.p95_output_tokens, s.output_tokens),
               "--p95-output");
  }
  if (!(s.shared_prefix_tokens >= 0 && s.shared_prefix_tokens <= s.prompt_tokens)) {
    return bad(
        fmt::format("is {}; a prefix is part of the prompt of {} tokens", s.shared_prefix_tokens, s.prompt_tokens),
        "--shared-prefix");
  }
  ULLAGE_TRY_VOID(check_count(s.concurrency, 1, kMaxCount, "--concurrency"));
  ULLAGE_TRY_VOID(check_number(s.qps, 0, 1e9, "--qps"));
  ULLAGE_TRY_VOID(check_number(s.duration_seconds, 0, 1e9, "--duration"));
  ULLAGE_TRY_VOID(check_number(s.price_per_hour, 0, 1e9, "--price"));
  return {};
}

Result<void> check_model(const Scenario& s) {
  if (s.force_mha && s.num_kv_heads > 0) {
    return bad(fmt::format("both --force-mha and --kv-heads {} are given; give one", s.num_kv_heads), "--kv-heads");
  }
  ULLAGE_TRY_VOID(check_count(s.num_kv_heads, 0, kMaxCount, "--kv-heads"));
  if (s.num_kv_heads > 0) {
    for (const model::LayerShape& layer : s.shape->layers) {
      const auto* attention = std::get_if<model::Attention>(&layer.mixer);
      if (attention == nullptr || attention->num_heads % s.num_kv_heads == 0) continue;
      return bad(fmt::format("the model's {} heads do not divide into {} groups; give a divisor of {}",
                             attention->num_heads, s.num_kv_heads, attention->num_heads),
                 "--kv-heads");
    }
  }
  if (!s.weight_format.empty() && s.weights != WeightPrecision::kAsStored) {
    return bad(fmt::format("both {} and {} are given; give one", s.weight_format, weight_precision_name(s.weights)),
               "--weights");
  }
  ULLAGE_TRY_VOID(check_count(s.num_speculative_tokens, 0, 64, "--num-speculative-tokens"));
  ULLAGE_TRY_VOID(check_number(s.acceptance_rate, 0, 1, "--acceptance-rate"));
  ULLAGE_TRY_VOID(check_count(s.adapters.max_loras, 0, 4096, "--max-loras"));
  ULLAGE_TRY_VOID(check_count(s.adapters.max_rank, 1, 4096, "--max-lora-rank"));
  return {};
}

Result<void> check_engine(const Scenario& s) {
  if (s.gpu_memory_utilization != 0) {
    ULLAGE_TRY_VOID(check_share(s.gpu_memory_utilization, "--gpu-memory-utilization"));
  }
  if (s.kv_memory && (s.kv_memory->value < 1 || s.kv_memory->value > (int64_t{1} << 50))) {
    return bad(fmt::format("is {} bytes; give a size above 0, as 30GiB", s.kv_memory->value), "--kv-memory");
  }
  if (s.num_blocks && (*s.num_blocks < 2 || *s.num_blocks > INT32_MAX)) {
    return bad(fmt::format("is {}; give 2 to {}", *s.num_blocks, INT32_MAX), "--num-gpu-blocks-override");
  }
  if (s.activation_reserve && s.activation_reserve->value < 0) {
    return bad(fmt::format("is {} bytes; give 0 or more", s.activation_reserve->value), "--activation-reserve");
  }
  ULLAGE_TRY_VOID(check_count(s.block_size, 0, kMaxCount, "--block-size"));
  ULLAGE_TRY_VOID(check_count(s.max_model_len, 0, kMaxTokens, "--max-model-len"));
  ULLAGE_TRY_VOID(check_count(s.max_num_seqs, 0, kMaxCount, "--max-num-seqs"));
  ULLAGE_TRY_VOID(check_count(s.max_num_batched_tokens, 0, kMaxTokens, "--max-num-batched-tokens"));
  ULLAGE_TRY_VOID(check_count(s.parallelism.tensor, 1, kMaxCount, "--tensor-parallel-size"));
  ULLAGE_TRY_VOID(check_count(s.parallelism.pipeline, 1, kMaxCount, "--pipeline-parallel-size"));
  ULLAGE_TRY_VOID(check_count(s.parallelism.data, 1, kMaxCount, "--data-parallel-size"));
  ULLAGE_TRY_VOID(check_count(s.parallelism.decode_context, 1, kMaxCount, "--decode-context-parallel-size"));
  if (s.efficiency) {
    ULLAGE_TRY_VOID(check_share(s.efficiency->bandwidth, "--bandwidth-efficiency"));
    ULLAGE_TRY_VOID(check_share(s.efficiency->matmul, "--matmul-efficiency"));
    ULLAGE_TRY_VOID(check_number(s.efficiency->attention, 0, 1, "--attention-efficiency"));
    ULLAGE_TRY_VOID(check_share(s.efficiency->link, "--link-efficiency"));
    ULLAGE_TRY_VOID(check_number(s.efficiency->link_latency, 0, 1, "--link-latency"));
    ULLAGE_TRY_VOID(check_number(s.efficiency->step_overhead, 0, 10, "--step-overhead"));
  }
  return {};
}

// ceil of a token count that check_requests has bounded.
int64_t whole_tokens(double tokens) {
  const auto floor = static_cast<int64_t>(tokens);
  return floor + (static_cast<double>(floor) < tokens);
}

}  // namespace

const char* weight_precision_name(WeightPrecision precision) {
  switch (precision) {
    case WeightPrecision::kAsStored:
      return "as stored";
    case WeightPrecision::kF32:
      return "fp32";
    case WeightPrecision::kBF16:
      return "bf16";
    case WeightPrecision::kFP8:
      return "fp8";
    case WeightPrecision::kINT8:
      return "int8";
    case WeightPrecision::kINT4:
      return "int4";
    case WeightPrecision::kFP4:
      return "fp4";
  }
  return "?";
}

Result<WeightPrecision> parse_weight_precision(std::string_view name, std::string_view where) {
  for (const NamedPrecision& known : kPrecisions) {
    if (known.name == name) return known.precision;
  }
  return bad(
      fmt::format("\"{}\" is no weight format; give auto, fp32, bf16, fp8, int8, int4 (awq, gptq) or fp4 (nvfp4)",
                  name.substr(0, 40)),
      std::string(where));
}

Result<std::optional<model::DType>> parse_load_dtype(std::string_view name, std::string_view where) {
  using Dtype = std::optional<model::DType>;
  const std::string word = to_lower(name);
  if (word == "auto") return Dtype();
  if (word == "bfloat16" || word == "bf16") return Dtype(model::DType::kBF16);
  if (word == "float16" || word == "half" || word == "fp16" || word == "f16") return Dtype(model::DType::kF16);
  if (word == "float32" || word == "float" || word == "fp32" || word == "f32") return Dtype(model::DType::kF32);
  return bad(
      fmt::format("{} is no dtype to compute in; give auto, bfloat16, float16 (half) or float32 (float)", quote(name)),
      std::string(where));
}

model::DType resolve_dtype(const Scenario& scenario) {
  if (scenario.dtype) return *scenario.dtype;
  return memory::default_dtype(*scenario.profile, scenario.shape->weight_dtype);
}

Result<model::KvDType> resolve_kv_dtype(const Scenario& scenario) {
  if (scenario.kv_dtype) return *scenario.kv_dtype;
  if (const std::string& asked = scenario.shape->quantization.kv_cache_dtype; !asked.empty() && asked != "auto") {
    return model::parse_kv_dtype(asked, "the checkpoint's kv_cache_dtype");
  }
  // llama.cpp's cache is F16 whatever the weights are.
  if (scenario.profile->engine == memory::Engine::kLlamaCpp) return model::KvDType::kF16;
  switch (resolve_dtype(scenario)) {
    case model::DType::kF16:
      return model::KvDType::kF16;
    case model::DType::kF32:
      // Asked for, the cache follows; a file of 32 bits is served from a cache of 16.
      return scenario.dtype ? model::KvDType::kF32 : model::KvDType::kBF16;
    default:
      return model::KvDType::kBF16;
  }
}

Result<Settings> check_scenario(const Scenario& s) {
  if (s.shape == nullptr) return bad("no model is given; name one, or give its config.json", "MODEL");
  if (s.device == nullptr)
    return bad("no device is given; name one, as h100 (`ullage devices` lists them)", "--device");
  if (s.profile == nullptr) return bad("no engine is given; name one, as vllm", "--policy");
  if (s.shape->layers.empty()) return bad("the model has no layers; a plan needs at least one", "MODEL");
  ULLAGE_TRY_VOID(check_requests(s));
  ULLAGE_TRY_VOID(check_model(s));
  ULLAGE_TRY_VOID(check_engine(s));
  Settings out;
  ULLAGE_TRY(out.kv_dtype, resolve_kv_dtype(s));
  out.gpu_memory_utilization = s.gpu_memory_utilization;
  if (out.gpu_memory_utilization == 0) {
    out.gpu_memory_utilization = memory::default_utilization(
        *s.profile, *s.device, s.parallelism.tensor * s.parallelism.pipeline, s.max_num_batched_tokens);
  }
  // The idealised engine knows no blocks, no chunks and no limit but the pool.
  const bool is_ideal = s.profile->engine == memory::Engine::kLesson;
  out.block_size = s.block_size > 0 ? s.block_size : is_ideal ? 1 : s.profile->block_size;
  out.mean_tokens = whole_tokens(s.prompt_tokens + s.output_tokens);
  const double p95_prompt = s.p95_prompt_tokens > 0 ? s.p95_prompt_tokens : s.prompt_tokens;
  const double p95_output = s.p95_output_tokens > 0 ? s.p95_output_tokens : s.output_tokens;
  out.p95_tokens = whole_tokens(p95_prompt + p95_output);
  out.max_model_len = s.max_model_len > 0 ? s.max_model_len : s.shape->max_position_embeddings;
  // A shape of bare numbers says nothing of its positions: the requests do.
  if (out.max_model_len < 1) out.max_model_len = std::max(out.mean_tokens, out.p95_tokens);
  out.max_model_len = std::min(out.max_model_len, kMaxTokens);
  const int64_t longest = std::max(out.mean_tokens, out.p95_tokens);
  if (longest > out.max_model_len) {
    return Error{
        ErrorCode::kTooLarge,
        fmt::format("a request of {} tokens (prompt and output) is longer than {} of {}; shorten the request{}",
                    format_thousands(longest), s.max_model_len > 0 ? "--max-model-len" : "the model's positions",
                    format_thousands(out.max_model_len), s.max_model_len > 0 ? " or raise --max-model-len" : ""),
        s.max_model_len > 0 ? "--max-model-len" : "--prompt"};
  }
  out.max_num_seqs = s.max_num_seqs;
  if (out.max_num_seqs == 0) {
    out.max_num_seqs = is_ideal ? kMaxCount : memory::default_max_num_seqs(*s.profile, *s.device);
  }
  out.max_num_batched_tokens = s.max_num_batched_tokens;
  if (out.max_num_batched_tokens == 0) {
    out.max_num_batched_tokens = is_ideal ? kMaxTokens : memory::default_max_num_batched_tokens(*s.profile, *s.device);
  }
  return out;
}

}  // namespace ullage::plan
