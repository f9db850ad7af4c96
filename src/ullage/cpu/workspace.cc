#include "ullage/cpu/workspace.h"

#include <algorithm>

namespace ullage::cpu {
namespace {

// Partial attention states are a luxury of long decodes; without room the partitions run one after another.
constexpr int64_t kMaxPartialFloats = 16 * kMiB;

Result<Rows> allocate_rows(int64_t count, int64_t width, MemoryLedger* ledger) {
  Rows rows;
  rows.stride = padded_width(width);
  ULLAGE_TRY(rows.data, ledger->allocate_array<float>(MemoryRole::kWorkspace, count * rows.stride));
  return rows;
}

int64_t partial_floats(const Dimensions& d, const CpuOptions& options, int64_t num_threads) {
  const int64_t partitions = ceil_div(std::max<int64_t>(options.max_model_len, 1), kPartition);
  if (partitions == 1 || num_threads == 1) return 0;
  const int64_t rows = 4 * num_threads * d.group;  // executor's step splits no more than that
  const int64_t floats = rows * partitions * attention_state_floats(d.head_dim);
  return std::min(floats, kMaxPartialFloats);
}

Result<ThreadScratch> allocate_thread(const Dimensions& d, MemoryLedger* ledger) {
  const auto floats = [&](int64_t n) { return ledger->allocate_array<float>(MemoryRole::kWorkspace, n); };
  const int64_t matmul_floats =
      std::max({matmul_scratch_floats(d.hidden), matmul_scratch_floats(d.q_dim), matmul_scratch_floats(d.inner)});
  const int64_t state_floats = std::max(kQueryRows, d.group) * attention_state_floats(d.head_dim);
  const auto vocab = static_cast<size_t>(d.vocab);
  ThreadScratch t;
  ULLAGE_TRY(t.matmul, floats(matmul_floats));
  ULLAGE_TRY(t.attention, floats(attention_scratch_floats(d.group, d.head_dim)));
  ULLAGE_TRY(t.running_states, floats(state_floats));
  ULLAGE_TRY(t.next_states, floats(state_floats));
  ULLAGE_TRY(float* logits, floats(d.vocab));
  ULLAGE_TRY(float* weights, floats(d.vocab));
  ULLAGE_TRY(int32_t* ids, ledger->allocate_array<int32_t>(MemoryRole::kWorkspace, d.vocab));
  t.sampler = SamplerScratch{{logits, vocab}, {weights, vocab}, {ids, vocab}};
  return t;
}

}  // namespace

Dimensions dimensions(const model::ModelShape& shape) {
  const auto& attention = std::get<model::Attention>(shape.layers.front().mixer);
  Dimensions d;
  d.hidden = shape.hidden_size;
  d.inner = std::get<model::DenseFfn>(shape.layers.front().ffn).intermediate_size;
  d.num_heads = attention.num_heads;
  d.num_kv_heads = attention.num_kv_heads;
  d.group = attention.num_heads / attention.num_kv_heads;
  d.head_dim = attention.head_dim;
  d.q_dim = d.num_heads * d.head_dim;
  d.kv_dim = d.num_kv_heads * d.head_dim;
  d.rotary_dim = attention.rope.rotary_dim;
  d.vocab = shape.vocab_size;
  return d;
}

Result<Workspace> allocate_workspace(const Dimensions& d, const CpuOptions& options, int64_t num_threads,
                                     MemoryLedger* ledger) {
  const int64_t num_tokens = options.max_num_batched_tokens;
  Workspace w;
  ULLAGE_TRY(w.hidden, allocate_rows(num_tokens, d.hidden, ledger));
  ULLAGE_TRY(w.normed, allocate_rows(num_tokens, d.hidden, ledger));
  ULLAGE_TRY(w.qkv, allocate_rows(num_tokens, d.q_dim + 2 * d.kv_dim, ledger));
  ULLAGE_TRY(w.attended, allocate_rows(num_tokens, d.q_dim, ledger));
  ULLAGE_TRY(w.gate, allocate_rows(num_tokens, d.inner, ledger));
  ULLAGE_TRY(w.up, allocate_rows(num_tokens, d.inner, ledger));
  ULLAGE_TRY(w.angles, allocate_rows(num_tokens, d.rotary_dim, ledger));
  ULLAGE_TRY(w.sampled, allocate_rows(options.max_num_seqs, d.hidden, ledger));
  ULLAGE_TRY(w.logits, allocate_rows(std::min(kLogitRows, options.max_num_seqs), d.vocab, ledger));
  w.partial_floats = partial_floats(d, options, num_threads);
  ULLAGE_TRY(w.partials, ledger->allocate_array<float>(MemoryRole::kWorkspace, w.partial_floats));
  for (int64_t i = 0; i < num_threads; ++i) {
    ULLAGE_TRY(ThreadScratch scratch, allocate_thread(d, ledger));
    w.threads.push_back(scratch);
  }
  return w;
}

}  // namespace ullage::cpu
