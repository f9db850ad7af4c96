// Shapes that the cost tests share.
#pragma once

#include <cstdint>

#include "ullage/model/model_shape.h"

namespace ullage::cost {

inline model::Attention heads(int64_t num_heads, int64_t num_kv_heads, int64_t head_dim) {
  model::Attention attention;
  attention.num_heads = num_heads;
  attention.num_kv_heads = num_kv_heads;
  attention.head_dim = head_dim;
  attention.rope.rotary_dim = head_dim;
  return attention;
}

inline model::ModelShape dense(int64_t num_layers, int64_t hidden, int64_t intermediate, model::Attention attention,
                               int64_t vocab) {
  model::ModelShape shape;
  shape.architecture = "llama";
  shape.vocab_size = vocab;
  shape.hidden_size = hidden;
  shape.max_position_embeddings = 131072;
  shape.layers.assign(static_cast<size_t>(num_layers),
                      model::LayerShape{attention, model::DenseFfn{intermediate, false}});
  return shape;
}

// As published by their makers.
inline model::ModelShape llama_8b() { return dense(32, 4096, 14336, heads(32, 8, 128), 128256); }
inline model::ModelShape qwen3_8b() {
  model::Attention attention = heads(32, 8, 128);
  attention.has_qk_norm = true;
  return dense(36, 4096, 12288, attention, 151936);
}
inline model::ModelShape qwen3_14b() {
  model::Attention attention = heads(40, 8, 128);
  attention.has_qk_norm = true;
  return dense(40, 5120, 17408, attention, 151936);
}

}  // namespace ullage::cost
