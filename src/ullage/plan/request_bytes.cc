#include "ullage/plan/request_bytes.h"

#include <algorithm>
#include <variant>

#include "ullage/base/saturating.h"

namespace ullage::plan {
namespace {

int64_t reach_of(const model::KvSpec& spec) {
  if (const auto* sliding = std::get_if<model::SlidingWindowKv>(&spec)) return sliding->window;
  if (const auto* local = std::get_if<model::ChunkedLocalKv>(&spec)) return local->chunk;
  return 0;
}

}  // namespace

Result<RequestShape> request_shape(std::span<const memory::KvLayers> layers, const memory::KvLayoutOptions& options) {
  RequestShape out;
  out.windows.reserve(layers.size());
  for (const memory::KvLayers& kind : layers) {
    ULLAGE_TRY(const int64_t each, memory::layer_bytes(kind.spec, options));
    const int64_t bytes = saturating_mul(kind.num_layers, each);
    const int64_t reach = options.is_hybrid_disabled ? 0 : reach_of(kind.spec);
    if (std::holds_alternative<model::RecurrentState>(kind.spec)) {
      out.fixed_bytes = saturating_add(out.fixed_bytes, saturating_mul(bytes, 1 + options.num_speculative_tokens));
    } else if (const auto* cross = std::get_if<model::CrossAttentionKv>(&kind.spec)) {
      out.fixed_bytes = saturating_add(out.fixed_bytes, saturating_mul(bytes, cross->max_encoder_len));
    } else if (reach > 0) {
      out.windows.push_back({.bytes_per_token = bytes, .reach = reach});
    } else {
      out.bytes_per_token = saturating_add(out.bytes_per_token, bytes);
    }
  }
  return out;
}

int64_t bytes_of(const RequestShape& shape, int64_t num_tokens) {
  int64_t bytes = saturating_add(shape.fixed_bytes, saturating_mul(shape.bytes_per_token, num_tokens));
  for (const WindowedBytes& window : shape.windows) {
    bytes = saturating_add(bytes, saturating_mul(window.bytes_per_token, std::min(num_tokens, window.reach)));
  }
  return bytes;
}

}  // namespace ullage::plan
