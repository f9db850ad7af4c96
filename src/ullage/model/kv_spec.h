// What one layer keeps per token or per request. A request's bytes are fixed + per-token, with windows capped;
// never one constant times tokens.
#pragma once

#include <cstdint>
#include <variant>

#include "ullage/model/dtype.h"

namespace ullage::model {

// Keys and values of every past token.
struct FullAttentionKv {
  int64_t num_kv_heads = 0;
  int64_t key_dim = 0;  // elements a head and token
  int64_t value_dim = 0;
  friend bool operator==(const FullAttentionKv&, const FullAttentionKv&) = default;
};
// One compressed vector per token (MLA): kv_lora_rank + qk_rope_head_dim elements.
struct LatentKv {
  int64_t latent_dim = 0;
  int64_t rope_dim = 0;
  friend bool operator==(const LatentKv&, const LatentKv&) = default;
};
// Keys and values of the last `window` tokens.
struct SlidingWindowKv {
  FullAttentionKv kv;
  int64_t window = 0;
  friend bool operator==(const SlidingWindowKv&, const SlidingWindowKv&) = default;
};
// Keys and values of the current chunk of `chunk` tokens.
struct ChunkedLocalKv {
  FullAttentionKv kv;
  int64_t chunk = 0;
  friend bool operator==(const ChunkedLocalKv&, const ChunkedLocalKv&) = default;
};
// A state of fixed size per request, whatever its length (Mamba, gated delta): the last conv_width inputs of a
// convolution, and num_heads states. Tensor parallelism divides channels and heads.
struct RecurrentState {
  int64_t conv_channels = 0;
  int64_t conv_width = 0;      // conv_kernel - 1
  int64_t num_heads = 0;       // that ranks divide; Mamba 1: its channels
  int64_t state_elements = 0;  // per head
  DType conv_dtype = DType::kBF16;
  DType state_dtype = DType::kF32;
  // Of conv_channels, num_groups * group_channels belong to groups (Mamba 2's B and C: 2 * state_size each). Ranks
  // divide groups whole: where they do not divide, each rank has one. 0 = none.
  int64_t num_groups = 0;
  int64_t group_channels = 0;
  friend bool operator==(const RecurrentState&, const RecurrentState&) = default;
};
// The key of a sparse indexer: head_dim FP8 numbers and a scale of 4 bytes for each 128, whatever the KV dtype.
struct IndexerKv {
  int64_t head_dim = 0;
  friend bool operator==(const IndexerKv&, const IndexerKv&) = default;
};
// Keys and values of an encoder's output, kept while its request runs.
struct CrossAttentionKv {
  FullAttentionKv kv;
  int64_t max_encoder_len = 0;
  friend bool operator==(const CrossAttentionKv&, const CrossAttentionKv&) = default;
};
// Reads another layer's keys and values, and keeps none.
struct SharedKv {
  int64_t source_layer = 0;
  friend bool operator==(const SharedKv&, const SharedKv&) = default;
};
struct NoKv {
  friend bool operator==(const NoKv&, const NoKv&) = default;
};

using KvSpec = std::variant<FullAttentionKv, LatentKv, SlidingWindowKv, ChunkedLocalKv, RecurrentState, IndexerKv,
                            CrossAttentionKv, SharedKv, NoKv>;

}  // namespace ullage::model
