#include "ullage/model/model_shape.h"

#include <cmath>

#include <fmt/format.h>

#include "ullage/model/shape_limits.h"

namespace ullage::model {

KvSpec kv_spec(const LayerShape& layer) {
  const auto& attention = std::get<Attention>(layer.mixer);
  const FullAttentionKv full{attention.num_kv_heads, attention.head_dim, attention.head_dim};
  if (attention.sliding_window > 0) return SlidingWindowKv{full, attention.sliding_window};
  return full;
}

ParameterCounts count_parameters(const ModelShape& shape) {
  ParameterCounts counts;
  const int64_t hidden = shape.hidden_size;
  counts.embedding = shape.vocab_size * hidden;
  counts.output_head = shape.has_tied_embeddings ? 0 : shape.vocab_size * hidden;
  counts.norms = hidden;
  for (const LayerShape& layer : shape.layers) {
    const auto& attention = std::get<Attention>(layer.mixer);
    const int64_t q_dim = attention.num_heads * attention.head_dim;
    const int64_t kv_dim = attention.num_kv_heads * attention.head_dim;
    counts.attention += 2 * hidden * (q_dim + kv_dim);  // Q, K, V and the output
    if (attention.has_qkv_bias) counts.attention += q_dim + 2 * kv_dim;
    if (attention.has_output_bias) counts.attention += hidden;
    if (attention.has_qk_norm) counts.norms += 2 * attention.head_dim;
    counts.norms += 2 * hidden;
    const auto& ffn = std::get<DenseFfn>(layer.ffn);
    counts.ffn += 3 * hidden * ffn.intermediate_size;
    if (ffn.has_bias) counts.ffn += 2 * ffn.intermediate_size + hidden;
  }
  return counts;
}

Result<int64_t> check_size(int64_t value, int64_t most, std::string_view where) {
  if (value >= 1 && value <= most) return value;
  return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; 1 to {} was expected", value, most),
               std::string(where)};
}

Result<double> check_positive(double value, std::string_view where) {
  if (std::isfinite(value) && value > 0) return value;
  return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; a number over 0 was expected", value),
               std::string(where)};
}

Result<void> check_attention(const Attention& attention, std::string_view where) {
  const auto invalid = [&](std::string message) {
    return Error{ErrorCode::kInvalidArgument, std::move(message), std::string(where)};
  };
  if (attention.num_heads % attention.num_kv_heads != 0) {
    return invalid(fmt::format("{} attention heads cannot be shared evenly by {} key and value heads",
                               attention.num_heads, attention.num_kv_heads));
  }
  const int64_t rotary_dim = attention.rope.rotary_dim;
  if (rotary_dim < 2 || rotary_dim > attention.head_dim || rotary_dim % 2 != 0) {
    return invalid(
        fmt::format("{} of a head's {} elements would rotate; an even number from 2 to the head's was expected",
                    rotary_dim, attention.head_dim));
  }
  return {};
}

}  // namespace ullage::model
