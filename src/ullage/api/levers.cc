#include "ullage/api/levers.h"

#include <algorithm>
#include <utility>

namespace ullage::api {
namespace {

using enum LeverKind;

constexpr double kNoLimit = 9e18;
constexpr double kMostTokens = 1 << 30;
constexpr double kMostHeads = 1 << 20;

constexpr const char* kNumbers = "A model by its numbers (instead of MODEL)";
constexpr const char* kModel = "Changes to the model";
constexpr const char* kDevice = "Device";
constexpr const char* kMemory = "Memory";
constexpr const char* kEngine = "Engine";
constexpr const char* kLoad = "Requests";
constexpr const char* kTargets = "Targets (what would meet them)";
constexpr const char* kTime = "Speed";

constexpr Lever kLevers[] = {
    {"device", "--device,--gpu", kWord, 0, 0, kDevice,
     "One of `ullage devices` (h100, 4xL40S), or the spelling of nvidia-smi, or a .json file"},
    {"tensor_parallel", "--tensor-parallel-size,--tp,--tp-size,--count", kCount, 1, 65536, kDevice,
     "Devices that share each layer (1)"},
    {"pipeline_parallel", "--pipeline-parallel-size,--pp,--pp-size", kCount, 1, 65536, kDevice, "Stages of layers (1)"},
    {"data_parallel", "--data-parallel-size,--dp,--dp-size", kCount, 1, 65536, kDevice,
     "Replicas of the attention (1)"},
    {"expert_parallel", "--enable-expert-parallel,--ep", kFlag, 0, 0, kDevice,
     "Divide experts whole over the ranks of TP x DP"},
    {"decode_context_parallel", "--decode-context-parallel-size,--dcp", kCount, 1, 1024, kDevice,
     "Divide one request's tokens over the ranks of TP (1)"},
    {"memory", "--memory", kBytes, 1, kNoLimit, kDevice, "Usable memory of one device, instead of the catalogue's"},
    {"bandwidth", "--bandwidth", kBandwidth, 1, 1e18, kDevice, "Memory bandwidth (3.35TB/s)"},
    {"flops", "--flops", kFlops, 1, 1e20, kDevice, "Dense FLOP/s (989T), or by dtype (bf16=989T,fp8=1979T)"},
    {"link_bandwidth", "--link-bandwidth", kBandwidth, 1, 1e18, kDevice, "To the node's other devices, one direction"},
    {"host_bandwidth", "--host-bandwidth", kBandwidth, 1, 1e18, kDevice, "To the host's memory, one direction"},
    {"price", "--price", kMoney, 0, 1e9, kDevice, "US dollars an hour of one device: cost per million tokens"},

    {"layers", "--layers,--num-hidden-layers", kCount, 1, 65536, kNumbers, "Layers"},
    {"kv_heads", "--kv-heads,--num-key-value-heads", kCount, 1, kMostHeads, kNumbers,
     "KV heads; with MODEL: changes the model's"},
    {"head_dim", "--head-dim", kCount, 1, 65536, kNumbers, "Elements of a head"},
    {"heads", "--heads,--num-attention-heads", kCount, 1, kMostHeads, kNumbers, "Query heads (hidden / head_dim)"},
    {"hidden", "--hidden,--hidden-size", kCount, 1, 1 << 24, kNumbers, "Hidden size (heads x head_dim)"},
    {"intermediate", "--intermediate,--intermediate-size", kCount, 1, 1 << 26, kNumbers,
     "Width of the feed-forward (4 x hidden, to the next 256)"},
    {"vocab", "--vocab,--vocab-size", kCount, 1, 1 << 30, kNumbers, "Tokens of the vocabulary (128,000)"},
    {"sliding_window", "--sliding-window,--window", kCount, 1, kMostTokens, kNumbers, "Every layer keeps this window"},
    {"latent", "--latent,--kv-lora-rank", kCount, 1, 1 << 20, kNumbers,
     "MLA: elements of the latent that a token keeps, RoPE part included (576)"},
    {"num_experts", "--experts,--num-experts", kCount, 1, 1 << 20, kNumbers, "Routed experts of each layer"},
    {"experts_per_token", "--experts-per-token,--num-experts-per-tok", kCount, 1, 1 << 20, kNumbers,
     "Experts that a token meets (2)"},
    {"expert_intermediate", "--expert-intermediate,--moe-intermediate-size", kCount, 1, 1 << 26, kNumbers,
     "Width of one expert (intermediate)"},
    {"tied_embeddings", "--tied-embeddings", kFlag, 0, 0, kNumbers, "The output head is the embedding"},

    {"weights", "--weights,--quantization,-q", kWord, 0, 0, kModel,
     "Weights stored as bf16, fp8, int8, int4 (awq, gptq), nvfp4, mxfp4, ...; default: as the checkpoint"},
    {"dtype", "--dtype", kWord, 0, 0, kModel,
     "What is not quantised is loaded as: auto, bfloat16, float16, float32; auto halves float32 where the engine does"},
    {"weight_bytes", "--weight-bytes", kBytes, 1, kNoLimit, kModel,
     "With a model by its numbers: its weights' size, all devices together"},
    {"force_mha", "--force-mha", kFlag, 0, 0, kModel, "As many KV heads as query heads"},

    {"gpu_memory_utilization", "--gpu-memory-utilization,--memory-utilization,--mem-fraction-static", kRatio, 0.01, 1,
     kMemory, "Share of the device's memory that the engine takes (the policy's: 0.92 for vLLM)"},
    {"kv_memory", "--kv-memory,--kv-cache-memory-bytes,--kv-cache-memory", kBytes, 1, kNoLimit, kMemory,
     "Bytes for the KV pool of one device: everything after it is exact"},
    {"activation_reserve", "--activation-reserve", kBytes, 0, kNoLimit, kMemory,
     "Bytes set aside for activations, instead of the policy's rule"},
    {"kv_cache_dtype", "--kv-cache-dtype,--kv,--cache-type-k,-ctk", kWord, 0, 0, kMemory,
     "auto, bf16, fp8, int8_per_token_head, nvfp4, q8_0, ..."},
    {"block_size", "--block-size,--page-size", kCount, 1, 1 << 20, kMemory, "Tokens in a block (the policy's: 16)"},
    {"disable_hybrid_kv_cache_manager", "--disable-hybrid-kv-cache-manager", kFlag, 0, 0, kMemory,
     "Keep every attention layer like full attention"},
    {"num_blocks", "--num-gpu-blocks-override,--num-blocks", kCount, 1, 1e12, kMemory, "Exactly this many blocks"},
    {"enforce_eager", "--enforce-eager", kFlag, 0, 0, kMemory, "No CUDA graphs"},

    {"policy", "--policy,--engine", kWord, 0, 0, kEngine,
     "Whose rules: vllm (the newest), vllm-0.19, vllm-0.22, sglang, llama.cpp, ullage, lesson"},
    {"max_model_len", "--max-model-len,--ctx-size,--context-length,-c", kCount, 1, kMostTokens, kEngine,
     "Longest request, prompt and output together (the model's own)"},
    {"max_num_seqs", "--max-num-seqs,--parallel,--max-running-requests,-np", kCount, 1, 1 << 20, kEngine,
     "Requests that run at once (the policy's)"},
    {"max_num_batched_tokens", "--max-num-batched-tokens,--chunked-prefill-size,-b", kCount, 1, 1 << 24, kEngine,
     "Tokens in a step (the policy's)"},
    {"no_prefix_caching", "--no-enable-prefix-caching,--no-prefix-caching", kFlag, 0, 0, kEngine,
     "Blocks are not reused by later requests"},
    {"speculative_tokens", "--speculative-tokens,--num-speculative-tokens", kCount, 1, 1024, kEngine,
     "Tokens drafted a step; the model's draft layers are loaded"},
    {"acceptance_rate", "--acceptance-rate", kRatio, 0, 1, kEngine, "Share of drafted tokens that are kept (0.7)"},
    {"max_loras", "--max-loras", kCount, 1, 65536, kEngine, "Adapters in memory at once"},
    {"max_lora_rank", "--max-lora-rank", kCount, 1, 65536, kEngine, "Their rank (16)"},

    {"prompt", "--prompt,--prompt-tokens,--input", kCount, 1, kMostTokens, kLoad, "Tokens of a prompt (1024)"},
    {"output", "--output,--output-tokens", kCount, 1, kMostTokens, kLoad, "Tokens of an answer (256)"},
    {"p95_prompt", "--p95-prompt", kCount, 1, kMostTokens, kLoad,
     "The prompt that 95 in 100 do not exceed (as --prompt)"},
    {"p95_output", "--p95-output", kCount, 1, kMostTokens, kLoad, "The same of answers"},
    {"concurrency", "--concurrency,--batch", kCount, 1, 1 << 24, kLoad, "Requests that clients keep in flight (32)"},
    {"shared_prefix", "--shared-prefix", kCount, 0, kMostTokens, kLoad, "Tokens that all prompts begin with"},
    {"qps", "--qps,--request-rate", kNumber, 0, 1e9, kLoad, "Requests that arrive in a second"},
    {"duration", "--duration", kDuration, 0, 1e9, kLoad, "How long a request runs, when known (20s)"},

    {"users", "--users", kCount, 1, 1 << 24, kTargets, "This many requests at once"},
    {"context", "--context", kCount, 1, kMostTokens, kTargets, "A request of this many tokens"},
    {"ttft", "--ttft", kDuration, 1e-6, 1e6, kTargets, "Time to first token, at most (500ms)"},
    {"itl", "--itl,--tpot", kDuration, 1e-6, 1e6, kTargets, "Inter-token latency, at most (30ms)"},

    {"throughput", "--throughput", kNumber, 0.001, 1e12, kTargets, "Output tokens a second, at least"},

    {"bandwidth_efficiency", "--bandwidth-efficiency,--mbu", kRatio, 0.01, 1, kTime,
     "Model bandwidth utilisation: share of the memory bandwidth that is reached"},
    {"matmul_efficiency", "--matmul-efficiency,--mfu", kRatio, 0.01, 1, kTime,
     "Model FLOP/s utilisation: share of the peak that matrix products reach"},
    {"attention_efficiency", "--attention-efficiency", kRatio, 0.01, 1, kTime, "The same of attention (as products)"},
    {"link_efficiency", "--link-efficiency", kRatio, 0.01, 1, kTime, "Share of the links' bandwidth that is reached"},
    {"link_latency", "--link-latency", kDuration, 0, 1, kTime, "Time of one all-reduce beside its bytes (10us)"},
    {"step_overhead", "--step-overhead", kDuration, 0, 10, kTime, "Time of a step beside its work (1ms)"},
};

std::string_view without_dashes(std::string_view name) {
  const size_t first = name.find_first_not_of('-');
  return first == std::string_view::npos ? std::string_view() : name.substr(first);
}

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return (x == '_' ? '-' : x) == (y == '_' ? '-' : y);
         });
}

bool has_flag(const Lever& lever, std::string_view bare_name) {
  std::string_view rest = lever.flags;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    if (same_name(without_dashes(rest.substr(0, comma)), bare_name)) return true;
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return false;
}

}  // namespace

std::span<const Lever> levers() { return kLevers; }

const Lever* find_lever(std::string_view name) {
  const std::string_view bare = without_dashes(name);
  for (const Lever& lever : kLevers) {
    if (same_name(lever.key, bare)) return &lever;
  }
  for (const Lever& lever : kLevers) {
    if (has_flag(lever, bare)) return &lever;
  }
  return nullptr;
}

std::string main_flag(const Lever& lever) { return std::string(lever.flags.substr(0, lever.flags.find(','))); }

void LeverSettings::set(LeverSetting setting) {
  const auto it = std::find_if(settings_.begin(), settings_.end(),
                               [&](const LeverSetting& known) { return known.lever == setting.lever; });
  if (it == settings_.end()) {
    settings_.push_back(std::move(setting));
  } else {
    *it = std::move(setting);
  }
}

void LeverSettings::set_default(LeverSetting setting) {
  if (find(setting.lever->key) == nullptr) settings_.push_back(std::move(setting));
}

const LeverSetting* LeverSettings::find(std::string_view key) const {
  for (const LeverSetting& setting : settings_) {
    if (setting.lever->key == key) return &setting;
  }
  return nullptr;
}

}  // namespace ullage::api
