#include "ullage/model/model_shape.h"

#include <cmath>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {

std::vector<KvSpec> kv_specs(const LayerShape& layer) {
  std::vector<KvSpec> specs;
  if (const auto* attention = std::get_if<Attention>(&layer.mixer)) {
    const int64_t value_dim = attention->value_dim > 0 ? attention->value_dim : attention->head_dim;
    const FullAttentionKv full{attention->num_kv_heads, attention->head_dim, value_dim};
    if (attention->kv_source_layer >= 0) {
      specs.emplace_back(SharedKv{attention->kv_source_layer});
    } else if (attention->sliding_window > 0) {
      specs.emplace_back(SlidingWindowKv{full, attention->sliding_window});
    } else if (attention->chunk > 0) {
      specs.emplace_back(ChunkedLocalKv{full, attention->chunk});
    } else {
      specs.emplace_back(full);
    }
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
  if (rotary_dim < 2 || rotary_dim > attention.head_dim || rotary_dim % 2 != 0) {
    return invalid(
        fmt::format("{} of a head's {} elements would rotate; an even number from 2 to the head's was expected",
                    rotary_dim, attention.head_dim));
  }
  return {};
}

}  // namespace ullage::model
