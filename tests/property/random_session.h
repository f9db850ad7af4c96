// Random sessions for property tests that run a real model: requests that share prefixes, cancels, tiny pools, odd
// chunk and block sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ullage/base/random.h"
#include "ullage/base/units.h"
#include "ullage/cpu/cpu_executor.h"
#include "ullage/cpu/kernels.h"
#include "ullage/engine/engine.h"
#include "ullage/model/checkpoint.h"
#include "ullage/sched/request.h"

namespace ullage::property {

inline std::unique_ptr<cpu::CpuExecutor> make_executor(const model::Checkpoint& checkpoint,
                                                       const engine::EngineOptions& o, model::DType kv_dtype,
                                                       int64_t num_threads, cpu::Isa isa) {
  cpu::CpuOptions c;
  c.isa = isa;
  c.num_threads = num_threads;
  c.kv_dtype = kv_dtype;
  c.block_size = o.block_size;
  c.num_blocks = o.num_blocks;
  c.max_num_batched_tokens = o.max_num_batched_tokens;
  c.max_num_seqs = o.max_num_seqs;
  c.max_model_len = o.max_model_len;
  auto executor = cpu::CpuExecutor::create(checkpoint, c);
  if (executor) return *std::move(executor);
  ADD_FAILURE() << executor.error().to_string();
  return nullptr;
}

inline bool has_isa(cpu::Isa isa) { return cpu::select_kernels(isa).has_value(); }

// What a run of the engine is: its options, and what comes from outside at which step.
struct Session {
  engine::EngineOptions options;
  model::DType kv_dtype = model::DType::kF32;
  cpu::Isa isa = cpu::Isa::kAuto;
  int64_t num_threads = 1;
  std::vector<sched::RequestParams> requests;
  std::vector<int64_t> arrival_steps;  // [requests.size()], ascending
  std::vector<int64_t> cancel_steps;   // [requests.size()]; -1 = never
};

// Uniform in [low, high].
inline int64_t draw(RandomStream& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
}
template <class T>
T pick(RandomStream& random, std::initializer_list<T> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random.below(values.size())));
}

inline sched::SamplingParams draw_sampling(RandomStream& random, int64_t vocab_size) {
  sched::SamplingParams s;
  s.num_logprobs = static_cast<int32_t>(draw(random, 0, 3));
  s.seed = random.bits();
  s.temperature = 0;
  if (draw(random, 0, 2) == 0) {  // seeded sampling draws by the request's own seed and position
    s.temperature = pick(random, {0.3, 0.8, 1.0, 1.7});
    s.top_k = pick<int64_t>(random, {0, 0, 5, 40});
    s.top_p = pick(random, {1.0, 0.9, 0.5});
    s.min_p = pick(random, {0.0, 0.0, 0.05});
  }
  if (draw(random, 0, 4) == 0) s.repetition_penalty = 1.3;
  if (draw(random, 0, 4) == 0) s.presence_penalty = 0.5;
  if (draw(random, 0, 4) == 0) s.frequency_penalty = 0.25;
  if (draw(random, 0, 7) == 0) s.logit_bias = {{static_cast<TokenId>(draw(random, 3, vocab_size - 1)), 2.5F}};
  return s;
}

inline Session draw_session(uint64_t seed, const model::ModelShape& shape) {
  const int64_t vocab_size = shape.vocab_size;
  RandomStream random(seed);
  Session s;
  s.kv_dtype = pick(random, {model::DType::kF32, model::DType::kBF16, model::DType::kF16});
  s.isa = pick(random, {cpu::Isa::kAuto, cpu::Isa::kAuto, cpu::Isa::kPortable, cpu::Isa::kAvx2});
  if (!has_isa(s.isa)) s.isa = cpu::Isa::kAuto;
  // Seldom two: on a busy machine every step of a pool waits for its slowest thread to be scheduled.
  s.num_threads = draw(random, 0, 3) == 0 ? 2 : 1;
  engine::EngineOptions& o = s.options;
  o.is_paranoid = true;
  o.block_size = pick<int64_t>(random, {1, 4, 16, 32});
  o.max_model_len = std::min<int64_t>(shape.max_position_embeddings, 512);
  o.max_num_seqs = draw(random, 1, 8);
  o.max_num_batched_tokens = pick<int64_t>(random, {1, 2, 3, 7, 16, 33, 64, 256, 600});
  o.enable_chunked_prefill = o.max_num_batched_tokens < o.max_model_len || draw(random, 0, 1) == 0;
  o.enable_prefix_caching = draw(random, 0, 4) != 0;
  o.enable_partial_prefix_hits = o.enable_prefix_caching && draw(random, 0, 1) == 0;
  o.is_priority_policy = draw(random, 0, 3) == 0;

  // A few stems; prompts are a stem's beginning and a tail of their own, or an earlier prompt again.
  std::vector<std::vector<TokenId>> stems(static_cast<size_t>(draw(random, 1, 3)));
  const auto token = [&] { return static_cast<TokenId>(draw(random, 3, vocab_size - 1)); };
  for (auto& stem : stems) {
    // Now and then past 256 positions, where the executor's attention starts another partition.
    stem.resize(static_cast<size_t>(draw(random, 5, draw(random, 0, 3) == 0 ? o.max_model_len - 60 : 100)));
    for (TokenId& t : stem) t = token();
  }
  const int64_t num_requests = draw(random, 3, 12);
  int64_t step = 0;
  int64_t longest = 0;
  for (int64_t i = 0; i < num_requests; ++i) {
    sched::RequestParams& r = s.requests.emplace_back();
    r.id = RequestId(i + 1);
    if (i > 0 && draw(random, 0, 3) == 0) {
      r.prompt = s.requests[static_cast<size_t>(draw(random, 0, i - 1))].prompt;
    } else {
      const auto& stem = stems[random.below(stems.size())];
      const int64_t length = draw(random, 0, static_cast<int64_t>(stem.size()));
      r.prompt.assign(stem.begin(), stem.begin() + length);
      for (int64_t k = draw(random, 1, 20); k > 0; --k) r.prompt.push_back(token());
    }
    r.sampling = draw_sampling(random, vocab_size);
    r.stop.max_tokens = draw(random, 1, 30);
    r.stop.ignore_eos = draw(random, 0, 1) == 0;
    r.stop.eos_token_ids = {1, 2};
    if (draw(random, 0, 5) == 0) r.stop.min_tokens = r.stop.max_tokens / 2;
    r.priority = draw(random, 0, 2);
    if (draw(random, 0, 9) == 0) r.cache_salt = "salt";
    longest = std::max(longest, static_cast<int64_t>(r.prompt.size()) + r.stop.max_tokens);
    step += draw(random, 0, 3) == 0 ? draw(random, 1, 12) : 0;
    s.arrival_steps.push_back(step);
    s.cancel_steps.push_back(draw(random, 0, 5) == 0 ? step + draw(random, 0, 25) : -1);
  }
  // The pool holds the longest request, and seldom much more.
  const int64_t need = ceil_div(longest, o.block_size);
  o.num_blocks = 1 + need + (draw(random, 0, 3) == 0 ? 4 * need : draw(random, 0, need / 2));
  return s;
}

}  // namespace ullage::property
