// Matrices of attention and of recurrent mixers. Names are Hugging Face's.
#include <string>

#include "ullage/model/weight_collector.h"

namespace ullage::model {
namespace {

constexpr WeightRole kRole = WeightRole::kAttention;

void collect_attention(WeightCollector& c, const Attention& a, const std::string& module) {
  const int64_t hidden = c.hidden();
  const int64_t value_dim = a.value_dim > 0 ? a.value_dim : a.head_dim;
  const int64_t q_dim = a.num_heads * a.head_dim;
  const int64_t k_dim = a.num_kv_heads * a.head_dim;
  const int64_t v_dim = a.num_kv_heads * value_dim;
  const int64_t q_rows = a.has_output_gate ? 2 * q_dim : q_dim;
  const bool has_keys = a.kv_source_layer < 0;
  const bool has_values = has_keys && a.has_value_projection;
  c.matrix(module + ".q_proj", kRole, q_rows, hidden, Split::kRows);
  if (has_keys) c.matrix(module + ".k_proj", kRole, k_dim, hidden, Split::kKvHeads, a.num_kv_heads);
  if (has_values) c.matrix(module + ".v_proj", kRole, v_dim, hidden, Split::kKvHeads, a.num_kv_heads);
  c.matrix(module + ".o_proj", kRole, hidden, a.num_heads * value_dim, Split::kColumns);
  if (a.gate_dim > 0) c.matrix(module + ".g_proj", kRole, a.gate_dim, hidden, Split::kRows);
  if (a.has_qkv_bias) {
    c.vector(module + ".q_proj.bias", kRole, q_rows, Split::kRows);
    if (has_keys && a.has_key_bias) c.vector(module + ".k_proj.bias", kRole, k_dim, Split::kKvHeads, a.num_kv_heads);
    if (has_values) c.vector(module + ".v_proj.bias", kRole, v_dim, Split::kKvHeads, a.num_kv_heads);
  }
  if (a.has_output_bias) c.vector(module + ".o_proj.bias", kRole, hidden);
  if (a.has_sinks) c.vector(module + ".sinks", kRole, a.num_heads, Split::kRows);
  if (a.has_qk_norm) {
    c.vector(module + ".q_norm", WeightRole::kNorm, a.qk_norm_spans_heads ? q_dim : a.head_dim);
    if (has_keys) c.vector(module + ".k_norm", WeightRole::kNorm, a.qk_norm_spans_heads ? k_dim : a.head_dim);
  }
}

void collect_indexer(WeightCollector& c, const LatentAttention& a, const SparseIndexer& indexer) {
  if (indexer.is_shared) return;
  const int64_t q_input = a.q_lora_rank > 0 ? a.q_lora_rank : c.hidden();
  c.matrix("self_attn.indexer.wq_b", kRole, indexer.num_heads * indexer.head_dim, q_input, Split::kReplicated);
  c.matrix("self_attn.indexer.wk", kRole, indexer.head_dim, c.hidden(), Split::kReplicated);
  c.vector("self_attn.indexer.k_norm", WeightRole::kNorm, indexer.head_dim);
  c.vector("self_attn.indexer.k_norm.bias", WeightRole::kNorm, indexer.head_dim);
  c.matrix("self_attn.indexer.weights_proj", kRole, indexer.num_heads, c.hidden(), Split::kReplicated);
}

void collect_latent(WeightCollector& c, const LatentAttention& a) {
  const int64_t hidden = c.hidden();
  const int64_t q_dim = a.num_heads * (a.qk_nope_head_dim + a.qk_rope_head_dim);
  if (a.q_lora_rank > 0) {
    c.matrix("self_attn.q_a_proj", kRole, a.q_lora_rank, hidden, Split::kReplicated);
    c.vector("self_attn.q_a_layernorm", WeightRole::kNorm, a.q_lora_rank);
    c.matrix("self_attn.q_b_proj", kRole, q_dim, a.q_lora_rank, Split::kRows);
  } else {
    c.matrix("self_attn.q_proj", kRole, q_dim, hidden, Split::kRows);
  }
  c.matrix("self_attn.kv_a_proj_with_mqa", kRole, a.kv_lora_rank + a.qk_rope_head_dim, hidden, Split::kReplicated);
  c.vector("self_attn.kv_a_layernorm", WeightRole::kNorm, a.kv_lora_rank);
  c.matrix("self_attn.kv_b_proj", kRole, a.num_heads * (a.qk_nope_head_dim + a.v_head_dim), a.kv_lora_rank,
           Split::kRows);
  c.matrix("self_attn.o_proj", kRole, hidden, a.num_heads * a.v_head_dim, Split::kColumns);
  if (a.indexer) collect_indexer(c, a, *a.indexer);
}

void collect_gated_delta(WeightCollector& c, const LinearAttention& a) {
  const int64_t hidden = c.hidden();
  const int64_t k_dim = a.num_key_heads * a.key_head_dim;
  const int64_t v_dim = a.num_value_heads * a.value_head_dim;
  c.matrix("linear_attn.in_proj_qkv", kRole, 2 * k_dim + v_dim, hidden, Split::kRows);
  c.matrix("linear_attn.in_proj_z", kRole, v_dim, hidden, Split::kRows);
  c.matrix("linear_attn.in_proj_b", kRole, a.num_value_heads, hidden, Split::kRows);
  c.matrix("linear_attn.in_proj_a", kRole, a.num_value_heads, hidden, Split::kRows);
  c.table("linear_attn.conv1d", kRole, 2 * k_dim + v_dim, a.conv_kernel, Split::kRows);
  c.vector("linear_attn.dt_bias", kRole, a.num_value_heads, Split::kRows);
  c.vector("linear_attn.A_log", kRole, a.num_value_heads, Split::kRows);
  c.vector("linear_attn.norm", WeightRole::kNorm, a.value_head_dim);
  c.matrix("linear_attn.out_proj", kRole, hidden, v_dim, Split::kColumns);
}

// Kimi Linear: queries, keys and values apart, each behind a convolution of its own; the decay and the output's gate
// are products of two thin matrices.
void collect_kimi_delta(WeightCollector& c, const LinearAttention& a) {
  const int64_t hidden = c.hidden();
  const int64_t k_dim = a.num_key_heads * a.key_head_dim;
  const int64_t v_dim = a.num_value_heads * a.value_head_dim;
  c.matrix("self_attn.q_proj", kRole, k_dim, hidden, Split::kRows);
  c.matrix("self_attn.k_proj", kRole, k_dim, hidden, Split::kRows);
  c.matrix("self_attn.v_proj", kRole, v_dim, hidden, Split::kRows);
  c.table("self_attn.q_conv1d", kRole, k_dim, a.conv_kernel, Split::kRows);
  c.table("self_attn.k_conv1d", kRole, k_dim, a.conv_kernel, Split::kRows);
  c.table("self_attn.v_conv1d", kRole, v_dim, a.conv_kernel, Split::kRows);
  c.vector("self_attn.A_log", kRole, a.num_value_heads, Split::kRows);
  c.matrix("self_attn.f_a_proj", kRole, a.key_head_dim, hidden, Split::kReplicated);
  c.matrix("self_attn.f_b_proj", kRole, k_dim, a.key_head_dim, Split::kRows);
  c.vector("self_attn.dt_bias", kRole, k_dim, Split::kRows);
  c.matrix("self_attn.b_proj", kRole, a.num_value_heads, hidden, Split::kRows);
  c.matrix("self_attn.g_a_proj", kRole, a.value_head_dim, hidden, Split::kReplicated);
  c.matrix("self_attn.g_b_proj", kRole, v_dim, a.value_head_dim, Split::kRows);
  c.vector("self_attn.o_norm", WeightRole::kNorm, a.value_head_dim);
  c.matrix("self_attn.o_proj", kRole, hidden, v_dim, Split::kColumns);
}

void collect_mamba1(WeightCollector& c, const StateSpace& s) {
  const int64_t hidden = c.hidden();
  c.matrix("mamba.in_proj", kRole, 2 * s.inner_size, hidden, Split::kRows);
  if (s.has_projection_bias) c.vector("mamba.in_proj.bias", kRole, 2 * s.inner_size, Split::kRows);
  c.table("mamba.conv1d", kRole, s.inner_size, s.conv_kernel, Split::kRows);
  if (s.has_conv_bias) c.vector("mamba.conv1d.bias", kRole, s.inner_size, Split::kRows);
  c.matrix("mamba.x_proj", kRole, s.time_step_rank + 2 * s.state_size, s.inner_size, Split::kColumns);
  c.matrix("mamba.dt_proj", kRole, s.inner_size, s.time_step_rank, Split::kRows);
  c.vector("mamba.dt_proj.bias", kRole, s.inner_size, Split::kRows);
  c.table("mamba.A_log", kRole, s.inner_size, s.state_size, Split::kRows);
  c.vector("mamba.D", kRole, s.inner_size, Split::kRows);
  c.matrix("mamba.out_proj", kRole, hidden, s.inner_size, Split::kColumns);
  if (s.has_projection_bias) c.vector("mamba.out_proj.bias", kRole, hidden);
}

void collect_mamba2(WeightCollector& c, const StateSpace& s) {
  const int64_t hidden = c.hidden();
  const int64_t conv_dim = s.inner_size + 2 * s.num_groups * s.state_size;
  const int64_t in_rows = s.inner_size + conv_dim + s.num_heads;
  c.matrix("mamba.in_proj", kRole, in_rows, hidden, Split::kRows);
  if (s.has_projection_bias) c.vector("mamba.in_proj.bias", kRole, in_rows, Split::kRows);
  c.table("mamba.conv1d", kRole, conv_dim, s.conv_kernel, Split::kRows);
  if (s.has_conv_bias) c.vector("mamba.conv1d.bias", kRole, conv_dim, Split::kRows);
  for (const char* name : {"mamba.dt_bias", "mamba.A_log", "mamba.D"}) c.vector(name, kRole, s.num_heads, Split::kRows);
  if (s.has_gate_norm) c.vector("mamba.norm", WeightRole::kNorm, s.inner_size, Split::kRows);
  c.matrix("mamba.out_proj", kRole, hidden, s.inner_size, Split::kColumns);
  if (s.has_projection_bias) c.vector("mamba.out_proj.bias", kRole, hidden);
}

void collect_state_space(WeightCollector& c, const StateSpace& s) {
  if (s.num_heads > 0) {
    collect_mamba2(c, s);
  } else {
    collect_mamba1(c, s);
  }
}

}  // namespace

void collect_mixer(WeightCollector& c, const LayerShape& layer) {
  if (const auto* attention = std::get_if<Attention>(&layer.mixer)) {
    collect_attention(c, *attention, "self_attn");
  } else if (const auto* latent = std::get_if<LatentAttention>(&layer.mixer)) {
    collect_latent(c, *latent);
  } else if (const auto* linear = std::get_if<LinearAttention>(&layer.mixer)) {
    if (linear->kind == LinearAttention::Kind::kGatedDelta) {
      collect_gated_delta(c, *linear);
    } else {
      collect_kimi_delta(c, *linear);
    }
  } else if (const auto* state = std::get_if<StateSpace>(&layer.mixer)) {
    collect_state_space(c, *state);
  }
  if (layer.parallel_state_space) collect_state_space(c, *layer.parallel_state_space);
  if (layer.cross_attention) collect_attention(c, *layer.cross_attention, "encoder_attn");
}

}  // namespace ullage::model
