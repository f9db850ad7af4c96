#include "ullage/memory/engine_profile.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/quote.h"

namespace ullage::memory {
namespace {

constexpr Bytes mib(int64_t n) { return Bytes(n * kMiB); }

// V0 kept no logits of more than 256 requests by default, profiled whole prompts and captured graphs after the pool was
// taken.
constexpr ActivationRule kV0Activation{.logit_bytes = 38, .hidden_copies = 3, .constant = mib(44), .error = mib(768)};
// The dummy sampler run: top-p by a full sort. 2 (BF16 logits) + 4 (F32) + 4 + 8 (sorted values, int64 indices) + 20 of
// softmax, sum, mask and scatter.
constexpr ActivationRule kSortingSampler{.logit_bytes = 38, .hidden_copies = 5, .constant = mib(44), .error = mib(256)};
// Top-k and top-p by one Triton kernel: 2 (BF16 logits) + 4 (F32) + 4 (probabilities) + 4 (exponential noise), and one
// row a program.
constexpr ActivationRule kTritonSampler{.logit_bytes = 14,
                                        .sampler_programs = 132,
                                        .hidden_copies = 5,
                                        .keeps_expert_workspace = true,
                                        .constant = mib(44),
                                        .error = mib(154)};

constexpr RuntimeRule kV0Runtime{.alone = mib(72),
                                 .before_sampler = mib(72),
                                 .peers_by_link = mib(1024),
                                 .peers_by_pcie = mib(256),
                                 .each_doubling = mib(0),
                                 .error = mib(1024)};
constexpr RuntimeRule kEarlyRuntime{.alone = mib(72),
                                    .before_sampler = mib(72),
                                    .peers_by_link = mib(1024),
                                    .peers_by_pcie = mib(512),
                                    .each_doubling = mib(41),
                                    .on_shared_memory = mib(1536),
                                    .error = mib(512)};
constexpr RuntimeRule kTritonRuntime{.alone = mib(256),
                                     .before_sampler = mib(72),
                                     .peers_by_link = mib(1864),
                                     .peers_by_pcie = mib(256),
                                     .each_doubling = mib(72),
                                     .unaligned_logits = mib(215),
                                     .on_shared_memory = mib(1536),
                                     .error = mib(128)};

constexpr EngineProfile kV0{
    .name = "vllm-0.6",
    .gpu_memory_utilization = 0.90,
    .max_concurrent_batches = 1,
    .prints_derived_tokens = false,
    .has_group_size_exception = false,
    .subtracts_graphs = false,
    .has_prefix_caching = false,
    .profiles_max_model_len = true,
    .large_device_tokens = 2048,
    .huge_device_tokens = 2048,
    .activation = kV0Activation,
    .runtime = kV0Runtime,
    .graph_bytes = mib(15),
    .graph_error = mib(512),
    .evidence = "start-up logs of the V0 engine, 0.6 to 0.8",
    .error = "activations: 4 of 6 boots within 0.2 GiB; one A100 boot kept 9.4 GiB, unexplained"};

// V1 from 0.8 on: defaults by device, chunked prefill, prefix caching.
constexpr EngineProfile v1(std::string_view name) {
  EngineProfile p{.name = name,
                  .gpu_memory_utilization = 0.90,
                  .max_concurrent_batches = 1,
                  .prints_derived_tokens = false,
                  .has_group_size_exception = false,
                  .subtracts_graphs = false,
                  .activation = kSortingSampler,
                  .runtime = kEarlyRuntime,
                  .graph_bytes = mib(8),
                  .graph_error = mib(512),
                  .evidence = "start-up logs of 0.8 to 0.13",
                  .error = "activations: 5.58 GiB logged, 5.59 predicted (Qwen3-30B, H100); 0.34 and 0.35 (LLaVA 7B)"};
  return p;
}
constexpr EngineProfile v0_12() {
  EngineProfile p = v1("vllm-0.12");
  p.has_group_size_exception = true;
  return p;
}
constexpr EngineProfile v0_17(std::string_view name) {
  EngineProfile p = v1(name);
  p.has_group_size_exception = true;
  p.activation = kTritonSampler;
  p.runtime = kTritonRuntime;
  p.evidence = "47 start-ups of 0.19 on H100, every term logged";
  p.error = "KV memory on those: docs/accuracy.md";
  return p;
}
constexpr EngineProfile v0_20_2(std::string_view name) {
  EngineProfile p = v0_17(name);
  p.gpu_memory_utilization = 0.92;
  p.prints_derived_tokens = true;
  p.subtracts_graphs = true;
  p.evidence = "the rules of 0.19; the estimate of graphs from start-up logs of 0.20 to 0.26";
  p.error = "graphs: 7.5 MiB each, off by up to 1 GiB where first captures load kernels";
  return p;
}
constexpr EngineProfile v0_26(std::string_view name) {
  EngineProfile p = v0_20_2(name);
  p.max_concurrent_batches = 2;
  return p;
}
constexpr EngineProfile v0_27(std::string_view name) {
  EngineProfile p = v0_26(name);
  p.huge_device_tokens = 16384;
  p.evidence = "vLLM's source, August 2026 (defaults, in-flight steps); memory as in 0.19 and 0.22";
  return p;
}

constexpr EngineProfile kSglang{.name = "sglang",
                                .engine = Engine::kSglang,
                                .gpu_memory_utilization = 0,
                                .block_size = 1,
                                .max_concurrent_batches = 1,
                                .prints_derived_tokens = false,
                                .subtracts_graphs = false,
                                .huge_device_tokens = 16384,
                                .runtime = {.alone = mib(614),
                                            .before_sampler = mib(614),
                                            .peers_by_link = mib(1229),
                                            .peers_by_pcie = mib(512),
                                            .each_doubling = mib(0),
                                            .error = mib(1024)},
                                .evidence = "SGLang's own rule for mem_fraction_static; two start-up logs",
                                .error = "reserve 25.6 GiB predicted, 25.9 logged (Qwen3-8B, 275 GiB device)"};

constexpr EngineProfile kLlamaCpp{.name = "llama.cpp",
                                  .engine = Engine::kLlamaCpp,
                                  .gpu_memory_utilization = 1.0,
                                  .block_size = 1,
                                  .max_concurrent_batches = 1,
                                  .prints_derived_tokens = false,
                                  .subtracts_graphs = false,
                                  .has_prefix_caching = false,
                                  .large_device_tokens = 2048,
                                  .huge_device_tokens = 2048,
                                  .kv_padding = 256,
                                  .activation = {.logit_bytes = 4, .error = mib(64)},
                                  .runtime = {.alone = mib(512),
                                              .before_sampler = mib(512),
                                              .peers_by_link = mib(0),
                                              .peers_by_pcie = mib(0),
                                              .error = mib(256)},
                                  .evidence =
                                      "llama.cpp's source: a compute buffer holds the logits of one micro-batch "
                                      "of 512 tokens in F32 and one row of hidden width each",
                                  .error =
                                      "258.5 MiB and 304 MiB for Llama 3 8B and Qwen2.5 7B; the CUDA context is "
                                      "an estimate"};

constexpr EngineProfile kUllage{.name = "ullage",
                                .engine = Engine::kUllage,
                                .max_concurrent_batches = 1,
                                .subtracts_graphs = false,
                                .evidence = "the engine's own arithmetic (memory/pool_size.h)",
                                .error = "none: `ullage serve` asks the same function"};

constexpr EngineProfile kLesson{.name = "lesson",
                                .engine = Engine::kLesson,
                                .gpu_memory_utilization = 0.90,
                                .max_concurrent_batches = 1,
                                .subtracts_graphs = false,
                                .has_prefix_caching = false,
                                .activation = {.hidden_bytes = 17, .constant = mib(543)},
                                .evidence =
                                    "idealised: nominal capacity, weights, one reserve for the largest forward "
                                    "pass, and nothing else",
                                .error = "an assumption, not a measurement"};

// Oldest first within an engine.
constexpr EngineProfile kProfiles[] = {
    kV0,
    v1("vllm-0.8"),
    v1("vllm-0.10"),
    v1("vllm-0.11"),
    v0_12(),
    v0_17("vllm-0.17"),
    v0_17("vllm-0.19"),
    v0_17("vllm-0.20"),
    v0_20_2("vllm-0.20.2"),
    v0_20_2("vllm-0.22"),
    v0_26("vllm-0.26"),
    v0_27("vllm-0.27"),
    v0_27("vllm-0.29"),
    kSglang,
    kLlamaCpp,
    kUllage,
    kLesson,
};

using Version = std::tuple<int64_t, int64_t, int64_t>;

// The number at the front of `text`, which it is taken from.
std::optional<int64_t> take_number(std::string_view& text) {
  size_t n = 0;
  int64_t value = 0;
  while (n < text.size() && n < 9 && text[n] >= '0' && text[n] <= '9') value = value * 10 + (text[n++] - '0');
  if (n == 0) return std::nullopt;
  text.remove_prefix(n);
  return value;
}

// "0.22.1rc1.dev3+g12" is (0, 22, 1); what follows the numbers is ignored.
std::optional<Version> parse_version(std::string_view text) {
  const std::optional<int64_t> major = take_number(text);
  if (!major) return std::nullopt;
  int64_t rest[2] = {0, 0};
  for (int64_t& part : rest) {
    if (!text.starts_with('.')) break;
    text.remove_prefix(1);
    const std::optional<int64_t> number = take_number(text);
    if (!number) break;
    part = *number;
  }
  return Version{*major, rest[0], rest[1]};
}

Version version_of(const EngineProfile& profile) {
  return parse_version(profile.name.substr(profile.name.find('-') + 1)).value_or(Version{});
}

std::string names() {
  std::string all;
  for (const EngineProfile& profile : kProfiles) {
    if (!all.empty()) all += ", ";
    all += profile.name;
  }
  return all;
}

const EngineProfile& newest_vllm() {
  const EngineProfile* newest = &kProfiles[0];
  for (const EngineProfile& profile : kProfiles) {
    if (profile.engine == Engine::kVllm) newest = &profile;
  }
  return *newest;
}

bool is_large(const hardware::Device& device) {
  // vLLM looks at what the driver reports; the A100 is left out by name, and a GB10, whose memory is the host's, was
  // found at the small defaults (four logs of 0.13 print 2,048 tokens a step).
  return device.usable_memory.value >= 70 * kGiB && !device.kind.starts_with("A100") && device.category != "integrated";
}

int64_t sglang_chunk(const hardware::Device& device) {
  const int64_t gib = device.nominal_memory.value / kGiB;
  if (gib < 35) return 2048;
  if (gib < 60) return 4096;
  return gib < 160 ? 8192 : 16384;
}

// The largest batch that SGLang captures a graph for.
int64_t sglang_graph_batch(const hardware::Device& device, int64_t num_ranks) {
  const int64_t gib = device.nominal_memory.value / kGiB;
  const bool is_narrow = num_ranks < 4;
  if (gib < 20) return 8;
  if (gib < 35) return is_narrow ? 24 : 80;
  if (gib < 60) return is_narrow ? 32 : 160;
  if (gib < 160) return is_narrow ? 256 : 512;
  return 512;
}

}  // namespace

std::span<const EngineProfile> engine_profiles() { return kProfiles; }

Result<const EngineProfile*> find_engine_profile(std::string_view name, std::string_view where) {
  std::string lower = to_lower(name);
  if (lower == "llama-cpp" || lower == "llamacpp" || lower == "llama-server") lower = "llama.cpp";
  for (const EngineProfile& profile : kProfiles) {
    if (lower == profile.name) return &profile;
  }
  if (lower == "vllm") return &newest_vllm();
  const std::string_view text = lower;
  for (const std::string_view engine : {std::string_view("sglang"), std::string_view("llama.cpp")}) {
    // These have one row for all versions.
    if (text.starts_with(engine) && text.size() > engine.size() &&
        (text[engine.size()] == '-' || text[engine.size()] == ' ')) {
      return find_engine_profile(engine, where);
    }
  }
  if (text.starts_with("vllm-") || text.starts_with("vllm ")) {
    std::string_view number = text.substr(5);
    if (number.starts_with('v')) number.remove_prefix(1);
    const std::optional<Version> wanted = parse_version(number);
    if (wanted && *wanted < Version{0, 2, 0} && number.find("dev") != std::string_view::npos) return &newest_vllm();
    const EngineProfile* found = nullptr;
    for (const EngineProfile& profile : kProfiles) {
      if (wanted && profile.engine == Engine::kVllm && version_of(profile) <= *wanted) found = &profile;
    }
    if (found != nullptr) return found;
    return Error{
        ErrorCode::kNotFound,
        wanted ? fmt::format("no rules are known for {}; the oldest are those of {}", quote(name), kProfiles[0].name)
               : fmt::format("{} has no version number; give one like vllm-0.22.1", quote(name)),
        std::string(where)};
  }
  return Error{ErrorCode::kNotFound, fmt::format("no policy is called {}; there are {}", quote(name), names()),
               std::string(where)};
}

bool runs_on_cpu(const hardware::Device& device) { return device.category == "cpu"; }

model::DType default_dtype(const EngineProfile& profile, model::DType stored) {
  const bool halves = profile.engine == Engine::kVllm || profile.engine == Engine::kSglang;
  return halves && stored == model::DType::kF32 ? model::DType::kBF16 : stored;
}

int64_t default_max_num_seqs(const EngineProfile& profile, const hardware::Device& device) {
  switch (profile.engine) {
    case Engine::kVllm:
      return !profile.profiles_max_model_len && is_large(device) ? 1024 : 256;
    case Engine::kSglang:
      return 2048;
    case Engine::kLlamaCpp:
      return 4;
    case Engine::kUllage:
      return runs_on_cpu(device) ? 128 : 1024;
    case Engine::kLesson:
      return 256;
  }
  return 256;
}

int64_t default_max_num_batched_tokens(const EngineProfile& profile, const hardware::Device& device) {
  switch (profile.engine) {
    case Engine::kVllm:
      if (!is_large(device)) return 2048;
      return device.usable_memory.value >= 160 * kGiB ? profile.huge_device_tokens : profile.large_device_tokens;
    case Engine::kSglang:
      return sglang_chunk(device);
    case Engine::kLlamaCpp:
      return 2048;
    case Engine::kUllage:
      return runs_on_cpu(device) ? 512 : 8192;
    case Engine::kLesson:
      return 8192;
  }
  return 8192;
}

double default_utilization(const EngineProfile& profile, const hardware::Device& device, int64_t num_ranks,
                           int64_t max_num_batched_tokens) {
  if (profile.engine == Engine::kUllage && runs_on_cpu(device)) return 0.5;
  if (profile.engine != Engine::kSglang) return profile.gpu_memory_utilization;
  // SGLang, in MiB: 512 + 1.5 a token of a chunk + 2 a request of the largest graph + 128 a rank; 10 GiB at least on
  // devices over 60 GiB.
  const int64_t chunk = max_num_batched_tokens > 0 ? max_num_batched_tokens : sglang_chunk(device);
  double reserved = 512 + 1.5 * static_cast<double>(std::max<int64_t>(chunk, 2048)) +
                    2.0 * static_cast<double>(sglang_graph_batch(device, num_ranks)) +
                    128.0 * static_cast<double>(num_ranks);
  const double total = static_cast<double>(device.nominal_memory.value) / static_cast<double>(kMiB);
  if (total > 60.0 * 1024.0) reserved = std::max(reserved, 10.0 * 1024.0);
  const double fraction = std::floor((total - reserved) / total * 1000.0 + 0.5) / 1000.0;
  return std::max(fraction, 0.1);
}

}  // namespace ullage::memory
