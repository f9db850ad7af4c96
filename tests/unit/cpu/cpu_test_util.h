// What the tests of cpu/ share: the instruction sets to try, random numbers, and a request that lives in a test.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ullage/base/random.h"
#include "ullage/cpu/cpu_executor.h"
#include "ullage/cpu/kernels.h"
#include "ullage/model/half.h"

namespace ullage::cpu {

// Every kernel table that this machine can run.
inline std::vector<const Kernels*> runnable_kernels() {
  std::vector<const Kernels*> all;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (const auto kernels = select_kernels(isa)) all.push_back(*kernels);
  }
  return all;
}

// Roughly normal, as activations and weights are.
inline float random_normal(RandomStream& random) {
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return static_cast<float>(sum);
}
inline std::vector<float> random_floats(RandomStream& random, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = random_normal(random);
  return values;
}

inline bool is_same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// A request whose step shares are made by hand.
struct TestRequest {
  explicit TestRequest(int64_t request_id = 1) : id(request_id) { sampling.temperature = 0.0; }

  RequestId id;
  std::vector<TokenId> tokens;
  int64_t num_prompt = 0;
  std::vector<BlockId> blocks;
  sched::SamplingParams sampling;
  sched::StopParams stop;
  sched::BlockTable table;

  // The share [first, first + count). The view lives as long as this object and its blocks stay as they are.
  sched::ScheduledRequest share(int64_t first, int64_t count, bool is_sampled = true) {
    table = blocks;
    sched::ScheduledRequest r;
    r.id = id;
    r.first_position = first;
    r.num_tokens = count;
    r.is_sampled = is_sampled;
    r.num_prompt_tokens = num_prompt;
    r.tokens = tokens;
    r.block_tables = {&table, 1};
    r.sampling = &sampling;
    r.stop = &stop;
    return r;
  }
};

inline sched::StepPlan plan_of(std::vector<sched::ScheduledRequest> requests,
                               std::vector<sched::BlockCopy> copies = {}) {
  sched::StepPlan plan;
  plan.requests = std::move(requests);
  plan.copies = std::move(copies);
  for (const auto& r : plan.requests) plan.num_tokens += r.num_tokens;
  return plan;
}

inline std::string model_path(const std::string& name) {
  return std::string(ULLAGE_SOURCE_DIR) + "/tests/data/models/" + name;
}

}  // namespace ullage::cpu
