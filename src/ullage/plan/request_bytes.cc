#include "ullage/plan/request_bytes.h"

#include <algorithm>
#include <variant>

#include "ullage/base/units.h"
#include "ullage/model/dtype.h"
#include "ullage/model/kv_dtype.h"
#include "ullage/model/kv_spec.h"

namespace ullage::plan {
namespace {

int64_t share(int64_t count, int64_t ranks) { return std::max<int64_t>(1, count / ranks); }

// Adds the layers of one kind to a RequestShape.
struct Adder {
  RequestShape& out;
  const memory::KvLayoutOptions& options;
  int64_t num_layers;

  int64_t head_bytes(const model::FullAttentionKv& kv) const {
    return share(kv.num_kv_heads, options.tensor_parallel) *
           (model::kv_head_bytes(options.kv_dtype, kv.key_dim) + model::kv_head_bytes(options.kv_dtype, kv.value_dim));
  }
  void add_window(const model::FullAttentionKv& kv, int64_t reach) const {
    out.windows.push_back({.bytes_per_token = num_layers * head_bytes(kv), .reach = reach});
  }

  void operator()(const model::FullAttentionKv& kv) const { out.bytes_per_token += num_layers * head_bytes(kv); }
  void operator()(const model::LatentKv& kv) const {
    out.bytes_per_token += num_layers * model::kv_head_bytes(options.kv_dtype, kv.latent_dim + kv.rope_dim);
  }
  void operator()(const model::SlidingWindowKv& sliding) const { add_window(sliding.kv, sliding.window); }
  void operator()(const model::ChunkedLocalKv& local) const { add_window(local.kv, local.chunk); }
  void operator()(const model::RecurrentState& state) const {
    const int64_t conv = share(state.conv_channels, options.tensor_parallel) *
                         (state.conv_width + options.num_speculative_tokens) *
                         model::info(state.conv_dtype).block_bytes;
    const int64_t heads = share(state.num_heads, options.tensor_parallel) * state.state_elements *
                          model::info(state.state_dtype).block_bytes;
    const int64_t num_states = 1 + options.num_speculative_tokens;
    out.fixed_bytes += num_layers * num_states * ((state.conv_channels > 0 ? conv : 0) + heads);
  }
  // A scale of 4 bytes for each 128 numbers of 1 (DeepSeek V3.2).
  void operator()(const model::IndexerKv& indexer) const {
    out.bytes_per_token += num_layers * (indexer.head_dim + 4 * ceil_div(indexer.head_dim, 128));
  }
  void operator()(const model::CrossAttentionKv& cross) const {
    out.fixed_bytes += num_layers * cross.max_encoder_len * head_bytes(cross.kv);
  }
  void operator()(const model::SharedKv&) const {}
  void operator()(const model::NoKv&) const {}
};

void add_spec(std::vector<memory::KvLayers>& collapsed, const model::KvSpec& spec) {
  if (std::holds_alternative<model::SharedKv>(spec) || std::holds_alternative<model::NoKv>(spec)) return;
  for (memory::KvLayers& known : collapsed) {
    if (known.spec != spec) continue;
    ++known.num_layers;
    return;
  }
  collapsed.push_back({.spec = spec, .num_layers = 1});
}

}  // namespace

RequestShape request_shape(std::span<const memory::KvLayers> layers, const memory::KvLayoutOptions& options) {
  RequestShape out;
  out.windows.reserve(layers.size());
  for (const memory::KvLayers& kind : layers) {
    std::visit(Adder{.out = out, .options = options, .num_layers = kind.num_layers}, kind.spec);
  }
  if (options.is_hybrid_disabled) {
    for (const WindowedBytes& window : out.windows) out.bytes_per_token += window.bytes_per_token;
    out.windows.clear();
  }
  return out;
}

int64_t bytes_of(const RequestShape& shape, int64_t num_tokens) {
  int64_t bytes = shape.fixed_bytes + shape.bytes_per_token * num_tokens;
  for (const WindowedBytes& window : shape.windows)
    bytes += window.bytes_per_token * std::min(num_tokens, window.reach);
  return bytes;
}

std::vector<memory::KvLayers> collapse_layers(std::span<const model::LayerShape> layers) {
  std::vector<memory::KvLayers> collapsed;
  add_layers(collapsed, layers);
  return collapsed;
}

void add_layers(std::vector<memory::KvLayers>& collapsed, std::span<const model::LayerShape> layers) {
  for (const model::LayerShape& layer : layers) {
    for (const model::KvSpec& spec : model::kv_specs(layer)) add_spec(collapsed, spec);
  }
}

}  // namespace ullage::plan
