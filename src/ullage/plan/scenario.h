// What is asked: a model on devices, an engine with its settings, and the requests it serves. Every lever of `ullage
// plan` is one field here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/cost/step_cost.h"
#include "ullage/hardware/device.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/model/dtype.h"
#include "ullage/model/kv_dtype.h"
#include "ullage/model/model_shape.h"
#include "ullage/model/parallelism.h"

namespace ullage::plan {

// How weights are stored, when a plan asks "what if" of a checkpoint. The 4-bit ones leave embedding and output head
// as they are, as published checkpoints do.
enum class WeightPrecision : uint8_t {
  kAsStored,
  kF32,
  kBF16,
  kFP8,   // one scale a matrix
  kINT8,  // one scale a row
  kINT4,  // AWQ, GPTQ: a 16-bit scale and a 4-bit zero point for each 128
  kFP4,   // NVFP4: an FP8 scale for each 16
};
const char* weight_precision_name(WeightPrecision precision);  // "as stored", "bf16", "fp8", ...
// "auto", "bf16" ("fp16", "f16"), "fp8", "int8", "int4" ("awq", "awq4", "gptq"), "fp4" ("nvfp4"), "fp32".
Result<WeightPrecision> parse_weight_precision(std::string_view name, std::string_view where);

// Adapters (LoRA) that are loaded beside the model: `max_loras` slots of rank `max_rank` on every matrix of attention
// and feed-forward.
struct Adapters {
  int64_t max_loras = 0;  // 0 = none
  int64_t max_rank = 16;
  friend bool operator==(const Adapters&, const Adapters&) = default;
};

// Views are not owned and must outlive the scenario and every Planner that saw it, unchanged.
struct Scenario {
  const model::ModelShape* shape = nullptr;
  const hardware::Device* device = nullptr;
  const memory::EngineProfile* profile = nullptr;

  // The model as loaded.
  std::optional<model::KvDType>
      kv_dtype;                       // of the cache; none = "auto": what the checkpoint asks for, else its weights'
  std::optional<model::DType> dtype;  // --dtype, of what is not quantised: kF32, kF16, kBF16; none = "auto"
  WeightPrecision weights = WeightPrecision::kAsStored;
  std::string weight_format;  // any other of model::quantization_names() ("q4_k_m"); "" = as `weights` says
  bool force_mha = false;     // as many KV heads as heads
  int64_t num_kv_heads = 0;   // in every layer of heads, instead of the model's; 0 = the model's. Not with force_mha
  int64_t num_speculative_tokens = 0;  // drafted a step; 0 = none. Draft layers are then loaded and keep KV, too
  double acceptance_rate = 0.7;        // of a drafted token, [0, 1]; only with speculative tokens
  Adapters adapters;

  // The engine's settings. 0 = the profile's default for this device.
  model::Parallelism parallelism;     // devices in use: its num_devices()
  double gpu_memory_utilization = 0;  // of the device's memory, (0, 1]
  std::optional<Bytes> kv_memory;     // of one rank: --kv-cache-memory-bytes. The budget's other terms are skipped
  std::optional<int64_t> num_blocks;  // --num-gpu-blocks-override: the budget's pool is ignored
  std::optional<Bytes> activation_reserve;  // of one rank, replaces the profile's rule
  bool has_graphs = true;                   // false: --enforce-eager
  bool has_prefix_caching = true;
  bool is_hybrid_disabled = false;     // --disable-hybrid-kv-cache-manager
  int64_t block_size = 0;              // tokens
  int64_t max_model_len = 0;           // tokens; 0 = the model's max_position_embeddings
  int64_t max_num_seqs = 0;            // requests that run at once, of one data-parallel replica
  int64_t max_num_batched_tokens = 0;  // tokens of a step

  // The requests.
  double prompt_tokens = 1024;      // mean
  double output_tokens = 256;       // mean
  double p95_prompt_tokens = 0;     // 0 = as the mean
  double p95_output_tokens = 0;     // 0 = as the mean
  double shared_prefix_tokens = 0;  // of each prompt, alike in all; cached once where the engine caches prefixes
  int64_t concurrency = 32;         // requests that clients keep in flight, over all replicas
  double qps = 0;                   // arrivals a second; 0 = not asked
  double duration_seconds = 0;      // mean duration of a request; 0 = as computed

  // What is reached of the peaks; none = calibrated for device and engine where that is known, else defaults.
  std::optional<cost::Efficiency> efficiency;
  double price_per_hour = 0;  // of one device; 0 = not asked
};

// What a scenario's zeros and "auto" stand for.
struct Settings {
  model::KvDType kv_dtype = model::KvDType::kBF16;
  double gpu_memory_utilization = 0;
  int64_t block_size = 0;
  int64_t max_model_len = 0;
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  int64_t mean_tokens = 0;  // of a whole request: prompt + output, rounded up
  int64_t p95_tokens = 0;
};

// Contradictory, zero, negative or illegal values: what was found, what is legal. `where` is the flag's name. Does not
// look at whether it fits: that is an answer (evaluate.h).
Result<Settings> check_scenario(const Scenario& scenario);

// "auto", "bfloat16" ("bf16"), "float16" ("half", "fp16"), "float32" ("float", "fp32"): none for "auto".
Result<std::optional<model::DType>> parse_load_dtype(std::string_view name, std::string_view where);
// What is not quantised is loaded as: what is asked for, else the engine's default for this checkpoint.
model::DType resolve_dtype(const Scenario& scenario);
// The KV dtype that "auto" means: the checkpoint's own, else what is not quantised is loaded as.
Result<model::KvDType> resolve_kv_dtype(const Scenario& scenario);

}  // namespace ullage::plan
