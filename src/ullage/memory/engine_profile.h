// What an engine and its version do with memory: defaults and rules, each with its evidence. One row a version.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/hardware/device.h"
#include "ullage/model/dtype.h"

namespace ullage::memory {

enum class Engine : uint8_t { kVllm, kSglang, kLlamaCpp, kUllage, kLesson };

// What an engine keeps back for its largest forward pass. The peak is the larger of two moments: the sampler's (logits
// of every request in several copies) and a feed-forward's (all tokens of a step at the intermediate width).
struct ActivationRule {
  double logit_bytes = 0;        // B of one logit at the sampler's peak, x max_num_seqs x vocab; 0 = no sampler run
  int64_t sampler_programs = 0;  // rows of 4 B x vocab that its top-k kernel keeps, at most one a request
  double hidden_copies = 0;      // of [tokens, hidden] beside the intermediate in a forward pass; 0 = not counted
  double hidden_bytes = 0;       // B x tokens x hidden; where the rule is no more than that
  bool keeps_expert_workspace = false;  // the fused experts' two workspaces stay allocated
  Bytes constant = {};                  // libraries' workspaces
  Bytes error = {};                     // nine boots in ten lie within +- this
};

// Memory of one rank that no tensor accounts for: modules and kernels of libraries, communication buffers. What a CUDA
// context takes before the engine's first look at the device is not among it.
struct RuntimeRule {
  Bytes alone = {};             // one rank
  Bytes before_sampler = {};    // a pipeline stage that does not sample
  Bytes peers_by_link = {};     // more, under tensor parallelism over NVLink and the like
  Bytes peers_by_pcie = {};     // more, under tensor parallelism over PCIe
  Bytes each_doubling = {};     // more, for each doubling of tensor parallelism beyond 2
  Bytes unaligned_logits = {};  // more, when rows of logits are no multiple of 16 bytes
  Bytes on_shared_memory = {};  // more, where the device's memory is the host's: the context and other processes count
  Bytes error = {};
};

struct EngineProfile {
  std::string_view name = {};  // "vllm-0.29", "sglang", "llama.cpp", "ullage", "lesson"
  Engine engine = Engine::kVllm;
  double gpu_memory_utilization = 0.92;  // 0 = follows from the device (SGLang): default_utilization()
  int64_t block_size = 16;
  int64_t max_concurrent_batches = 2;  // in-flight steps that sliding windows must keep room for
  // tokens = int(concurrency x max_model_len); before 0.20.2: blocks / groups x block.
  bool prints_derived_tokens = true;
  bool has_group_size_exception = true;  // groups as large as the largest type when it is < 1.5 x the smallest
  bool subtracts_graphs = true;          // the estimate of CUDA graphs is taken from the pool (from 0.20.2)
  bool has_prefix_caching = true;
  bool profiles_max_model_len = false;  // a whole prompt is one step (no chunked prefill): the profiled step has
                                        // max_model_len tokens
  int64_t large_device_tokens = 8192;   // max_num_batched_tokens of a server on 70 GiB and more, A100 apart
  int64_t huge_device_tokens = 8192;    // on 160 GiB and more
  int64_t kv_padding = 1;               // cells (tokens) of the cache are padded to a multiple of this (llama.cpp: 256)
  ActivationRule activation = {};
  RuntimeRule runtime = {};
  Bytes graph_bytes = {};  // of one captured graph
  Bytes graph_error = {};
  std::string_view evidence = {};  // where the rules are from
  std::string_view error = {};     // what they were found to be off by
};

std::span<const EngineProfile> engine_profiles();
// "vllm-0.19", "vllm 0.22.1" (the newest profile not after it), "vllm" (the newest), "sglang", ... kNotFound lists
// them. A version of a development build that numbers nothing ("0.1.dev1+g1a2b3c4") is the newest.
Result<const EngineProfile*> find_engine_profile(std::string_view name, std::string_view where = "--policy");

// What weights that are not quantised are loaded as when no dtype is asked for. vLLM (config/model.py) and SGLang
// (configs/model_config.py) halve checkpoints of 32 bits; the others take the file's.
model::DType default_dtype(const EngineProfile& profile, model::DType stored);
int64_t default_max_num_seqs(const EngineProfile& profile, const hardware::Device& device);
int64_t default_max_num_batched_tokens(const EngineProfile& profile, const hardware::Device& device);
// SGLang's mem_fraction_static follows from the device, the chunk and the ranks; the others' is the profile's own.
double default_utilization(const EngineProfile& profile, const hardware::Device& device, int64_t num_ranks = 1,
                           int64_t max_num_batched_tokens = 0);
// `ullage serve` computes on a CPU there rather than on a modelled device: weights are mapped files, and memory is
// shared with everything else that runs.
bool runs_on_cpu(const hardware::Device& device);

}  // namespace ullage::memory
