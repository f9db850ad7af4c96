// The activations of a step and the threads' scratch: allocated once, for the largest step.
#pragma once

#include <cstdint>
#include <vector>

#include "ullage/cpu/cpu_executor.h"
#include "ullage/cpu/memory_ledger.h"
#include "ullage/cpu/sampler.h"
#include "ullage/model/model_shape.h"

namespace ullage::cpu {

// Sizes that a step's code needs again and again.
struct Dimensions {
  int64_t hidden = 0;
  int64_t inner = 0;  // the feed-forward's width
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t group = 0;  // query heads that share a key head
  int64_t head_dim = 0;
  int64_t q_dim = 0;
  int64_t kv_dim = 0;
  int64_t rotary_dim = 0;
  int64_t vocab = 0;
};
Dimensions dimensions(const model::ModelShape& shape);

// Rows of floats at a fixed distance, their pads zero.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;
  float* row(int64_t i) const { return data + i * stride; }
};

struct ThreadScratch {
  float* matmul = nullptr;
  float* attention = nullptr;
  float* running_states = nullptr;  // [max(kQueryRows, group)][attention_state_floats]
  float* next_states = nullptr;     // likewise
  SamplerScratch sampler;
};

// Logits of this many requests are computed together.
inline constexpr int64_t kLogitRows = 32;

struct Workspace {
  Rows hidden;    // [max_num_batched_tokens, hidden]: the residual stream
  Rows normed;    // [.., hidden]
  Rows qkv;       // [.., q_dim + 2 * kv_dim]
  Rows attended;  // [.., q_dim]
  Rows gate;      // [.., inner]
  Rows up;        // [.., inner]
  Rows angles;    // [.., rotary_dim]
  Rows sampled;   // [max_num_seqs, hidden]: normed rows that give logits
  Rows logits;    // [min(kLogitRows, max_num_seqs), vocab]
  // States of single partitions, when one request's partitions go to different threads.
  float* partials = nullptr;
  int64_t partial_floats = 0;
  std::vector<ThreadScratch> threads;
};
Result<Workspace> allocate_workspace(const Dimensions& d, const CpuOptions& options, int64_t num_threads,
                                     MemoryLedger* ledger);

}  // namespace ullage::cpu
