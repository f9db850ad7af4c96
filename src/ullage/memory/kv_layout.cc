#include "ullage/memory/kv_layout.h"

#include <utility>

#include <fmt/format.h>

#include "ullage/base/check.h"

namespace ullage::memory {
namespace {

const char* kind_name(const model::KvSpec& spec) {
  struct Namer {
    const char* operator()(const model::FullAttentionKv&) const { return "full attention"; }
    const char* operator()(const model::LatentKv&) const { return "latent (MLA)"; }
    const char* operator()(const model::SlidingWindowKv&) const { return "sliding window"; }
    const char* operator()(const model::ChunkedLocalKv&) const { return "chunked local attention"; }
    const char* operator()(const model::RecurrentState&) const { return "recurrent state"; }
    const char* operator()(const model::IndexerKv&) const { return "sparse indexer"; }
    const char* operator()(const model::CrossAttentionKv&) const { return "cross-attention"; }
    const char* operator()(const model::SharedKv&) const { return "shared with another layer"; }
    const char* operator()(const model::NoKv&) const { return "none"; }
  };
  return std::visit(Namer{}, spec);
}

Error unsupported(int64_t layer, std::string what) {
  return Error{ErrorCode::kUnsupported, std::move(what), fmt::format("layer {}", layer)};
}

// block_size * num_kv_heads * (key and value bytes of a head) (vLLM FullAttentionSpec.page_size_bytes).
Result<int64_t> page_size_bytes(const model::FullAttentionKv& kv, int64_t block_size, model::KvDType dtype) {
  constexpr int64_t kMaxDim = int64_t{1} << 32;
  if (kv.num_kv_heads < 1 || kv.key_dim < 1 || kv.value_dim < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("attention of {} KV heads with keys of {} and values of {} elements; each is at least 1",
                             kv.num_kv_heads, kv.key_dim, kv.value_dim),
                 "layer 0"};
  }
  int64_t bytes = 0;
  if (kv.key_dim > kMaxDim || kv.value_dim > kMaxDim ||
      __builtin_mul_overflow(model::kv_head_bytes(dtype, kv.key_dim) + model::kv_head_bytes(dtype, kv.value_dim),
                             kv.num_kv_heads, &bytes) ||
      __builtin_mul_overflow(bytes, block_size, &bytes)) {
    return Error{ErrorCode::kTooLarge,
                 "the bytes of one block do not fit in 63 bits; check heads, head_dim and block size", "layer 0"};
  }
  return bytes;
}

}  // namespace

Result<KvLayout> make_kv_layout(std::span<const KvLayers> layers, const KvLayoutOptions& options) {
  if (options.block_size < 1 || options.block_size > (int64_t{1} << 20)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("expected 1 to 1048576 tokens in a block, found {}", options.block_size), "--block-size"};
  }
  if (layers.empty()) return Error{ErrorCode::kInvalidArgument, "a model has at least one layer", "layers"};

  KvLayout layout;
  layout.options = options;
  layout.block_size = options.block_size;
  BlockGroup group;
  group.spec = layers[0].spec;
  group.block_size = options.block_size;
  for (const KvLayers& each : layers) {
    model::KvSpec spec = each.spec;
    if (const auto* window = std::get_if<model::SlidingWindowKv>(&each.spec); window && options.is_hybrid_disabled) {
      spec = model::KvSpec(window->kv);
    }
    if (&each == &layers.front()) group.spec = spec;
    if (!std::holds_alternative<model::FullAttentionKv>(spec)) {
      return unsupported(group.num_layers,
                         fmt::format("the layer's KV is \"{}\"; only full attention is supported", kind_name(spec)));
    }
    if (spec != group.spec) {
      return unsupported(group.num_layers,
                         "the layer's KV heads or widths differ from layer 0's; they must be alike in every layer");
    }
    group.num_layers += each.num_layers;
  }
  ULLAGE_TRY(group.page_size_bytes,
             page_size_bytes(std::get<model::FullAttentionKv>(group.spec), options.block_size, options.kv_dtype));
  if (__builtin_mul_overflow(group.page_size_bytes, group.num_layers, &layout.bytes_per_block)) {
    return Error{ErrorCode::kTooLarge, "the bytes of one block over all layers do not fit in 63 bits", "layers"};
  }
  layout.groups.push_back(std::move(group));
  return layout;
}

Result<KvLayout> make_kv_layout(const model::ModelShape& shape, const KvLayoutOptions& options) {
  std::vector<KvLayers> layers;
  layers.reserve(shape.layers.size());
  for (const model::LayerShape& layer : shape.layers) {
    for (const model::KvSpec& spec : model::kv_specs(layer)) layers.push_back({spec, 1});
  }
  return make_kv_layout(layers, options);
}

int64_t kv_bytes_per_token(const KvLayout& layout) { return layout.bytes_per_block / layout.block_size; }

int64_t num_blocks(const KvLayout& layout, Bytes available) {
  return available.value <= 0 ? 0 : available.value / layout.bytes_per_block;
}

int64_t blocks_per_request(const KvLayout& layout, int64_t num_tokens, const InFlight& /*in_flight*/) {
  int64_t blocks = 0;
  for (const BlockGroup& group : layout.groups) blocks += ceil_div(num_tokens, group.block_size);
  return blocks;
}

KvCapacity kv_capacity(const KvLayout& layout, int64_t num_blocks, int64_t max_model_len, const InFlight& in_flight) {
  ULLAGE_CHECK(num_blocks >= 1 && max_model_len >= 1);
  const auto per_request = static_cast<double>(blocks_per_request(layout, max_model_len, in_flight));
  KvCapacity capacity;
  // In double and in this order, as vLLM computes it: exact integer arithmetic differs by one token now and then.
  capacity.max_concurrency = static_cast<double>(num_blocks) / per_request;
  capacity.size_tokens = static_cast<int64_t>(capacity.max_concurrency * static_cast<double>(max_model_len));
  capacity.usable_max_concurrency = static_cast<double>(num_blocks - 1) / per_request;
  capacity.usable_tokens = (num_blocks - 1) * layout.block_size;
  return capacity;
}

}  // namespace ullage::memory
