// What an engine and its version do with memory: defaults and rules, each with its evidence. One row a version.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/hardware/device.h"

namespace ullage::memory {

enum class Engine : uint8_t { kVllm, kSglang, kLlamaCpp, kUllage, kLesson };

struct EngineProfile {
  std::string_view name;  // "vllm-0.29", "sglang", "llama.cpp", "ullage", "lesson"
  Engine engine = Engine::kVllm;
  double gpu_memory_utilization = 0.92;
  int64_t block_size = 16;
  int64_t max_concurrent_batches = 2;  // in-flight steps that sliding windows must keep room for
  bool prints_derived_tokens =
      true;  // tokens = int(concurrency x max_model_len); before 0.20.2: blocks / groups x block
  bool has_group_size_exception = true;  // groups as large as the largest type when it is < 1.5 x the smallest
  bool subtracts_graphs = true;          // the estimate of CUDA graphs is taken from the pool (from 0.21)
  bool has_prefix_caching = true;
  std::string_view evidence;  // where the rules are from
  std::string_view error;     // what they were found to be off by
};

std::span<const EngineProfile> engine_profiles();
// "vllm-0.19", "vllm 0.22.1" (the newest profile not after it), "vllm" (the newest), "sglang", ... kNotFound lists
// them.
Result<const EngineProfile*> find_engine_profile(std::string_view name, std::string_view where = "--policy");

int64_t default_max_num_seqs(const EngineProfile& profile, const hardware::Device& device);
int64_t default_max_num_batched_tokens(const EngineProfile& profile, const hardware::Device& device);

}  // namespace ullage::memory
