#include "ullage/model/model_shape.h"

#include <cmath>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {

namespace {

KvSpec attention_kv(const Attention& attention) {
  if (attention.kv_source_layer >= 0) return SharedKv{attention.kv_source_layer};
  const int64_t value_dim = attention.value_dim > 0 ? attention.value_dim : attention.head_dim;
  const FullAttentionKv full{attention.num_kv_heads, attention.head_dim, value_dim};
  if (attention.sliding_window > 0) return SlidingWindowKv{full, attention.sliding_window};
  if (attention.chunk > 0) return ChunkedLocalKv{full, attention.chunk};
  return full;
}

// Q, K and V run through the convolution; each value head keeps a matrix of key_head_dim x value_head_dim.
RecurrentState linear_state(const LinearAttention& linear) {
  RecurrentState state;
  state.conv_channels = 2 * linear.num_key_heads * linear.key_head_dim + linear.num_value_heads * linear.value_head_dim;
  state.conv_width = linear.conv_kernel - 1;
  state.num_heads = linear.num_value_heads;
  state.state_elements = linear.key_head_dim * linear.value_head_dim;
  state.state_dtype = linear.state_dtype;
  return state;
}

RecurrentState mamba_state(const StateSpace& mamba) {
  const bool is_mamba2 = mamba.num_heads > 0;
  RecurrentState state;
  state.conv_channels = mamba.inner_size + (is_mamba2 ? 2 * mamba.num_groups * mamba.state_size : 0);
  state.conv_width = mamba.conv_kernel - 1;
  state.num_heads = is_mamba2 ? mamba.num_heads : mamba.inner_size;
  state.state_elements = is_mamba2 ? mamba.head_dim * mamba.state_size : mamba.state_size;
  if (is_mamba2) {
    state.num_groups = mamba.num_groups;
    state.group_channels = 2 * mamba.state_size;  // B and C
  }
  state.state_dtype = mamba.state_dtype;
  return state;
}

}  // namespace

std::vector<KvSpec> kv_specs(const LayerShape& layer) {
  std::vector<KvSpec> specs;
  if (const auto* attention = std::get_if<Attention>(&layer.mixer)) {
    specs.emplace_back(attention_kv(*attention));
  } else if (const auto* latent = std::get_if<LatentAttention>(&layer.mixer)) {
    specs.emplace_back(LatentKv{latent->kv_lora_rank, latent->qk_rope_head_dim});
    if (latent->indexer && !latent->indexer->is_shared) specs.emplace_back(IndexerKv{latent->indexer->head_dim});
  } else if (const auto* linear = std::get_if<LinearAttention>(&layer.mixer)) {
    specs.emplace_back(linear_state(*linear));
  } else if (const auto* mamba = std::get_if<StateSpace>(&layer.mixer)) {
    specs.emplace_back(mamba_state(*mamba));
  }
  if (layer.parallel_state_space) specs.emplace_back(mamba_state(*layer.parallel_state_space));
  if (const auto& cross = layer.cross_attention) {
    const int64_t value_dim = cross->value_dim > 0 ? cross->value_dim : cross->head_dim;
    specs.emplace_back(CrossAttentionKv{{cross->num_kv_heads, cross->head_dim, value_dim}, cross->max_encoder_len});
  }
  if (specs.empty()) specs.emplace_back(NoKv{});
  return specs;
}

KvSpec kv_spec(const LayerShape& layer) {
  std::vector<KvSpec> specs = kv_specs(layer);
  ULLAGE_CHECK(specs.size() == 1);
  return specs.front();
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
  if (rotary_dim == 0) return {};  // no rotation
  if (rotary_dim < 2 || rotary_dim > attention.head_dim || rotary_dim % 2 != 0) {
    return invalid(
        fmt::format("{} of a head's {} elements would rotate; an even number from 2 to the head's was expected",
                    rotary_dim, attention.head_dim));
  }
  return {};
}

}  // namespace ullage::model
