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
    const char* operator()(const model::SharedKv&) const { return "shared with another layer"; }
    const char* operator()(const model::NoKv&) const { return "none"; }
  };
  return std::visit(Namer{}, spec);
}

Error unsupported(int64_t layer, std::string what) {
  return Error{ErrorCode::kUnsupported, std::move(what), fmt::format("layer {}", layer)};
}

// block_size * num_kv_heads * (key_dim + value_dim) * dtype bytes (vLLM FullAttentionSpec.page_size_bytes).
Result<int64_t> page_size_bytes(const model::FullAttentionKv& kv, int64_t block_size, int64_t element_bytes) {
  if (kv.num_kv_heads < 1 || kv.key_dim < 1 || kv.value_dim < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("attention of {} KV heads with keys of {} and values of {} elements; each is at least 1",
                             kv.num_kv_heads, kv.key_dim, kv.value_dim),
                 "layer 0"};
  }
  int64_t bytes = 0;
  if (__builtin_add_overflow(kv.key_dim, kv.value_dim, &bytes) ||
      __builtin_mul_overflow(bytes, kv.num_kv_heads, &bytes) || __builtin_mul_overflow(bytes, element_bytes, &bytes) ||
      __builtin_mul_overflow(bytes, block_size, &bytes)) {
    return Error{ErrorCode::kTooLarge,
                 "the bytes of one block do not fit in 63 bits; check heads, head_dim and block size", "layer 0"};
  }
  return bytes;
}

}  // namespace

Result<KvLayout> make_kv_layout(std::span<const model::KvSpec> specs, int64_t block_size, model::DType kv_dtype) {
  if (block_size < 1 || block_size > (int64_t{1} << 20)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("expected 1 to 1048576 tokens in a block, found {}", block_size), "--block-size"};
  }
  if (kv_dtype != model::DType::kBF16 && kv_dtype != model::DType::kF16 && kv_dtype != model::DType::kF32) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the KV cache can hold BF16, F16 or F32, not {}", model::info(kv_dtype).name),
                 "--kv-cache-dtype"};
  }
  if (specs.empty()) return Error{ErrorCode::kInvalidArgument, "a model has at least one layer", "layers"};

  KvLayout layout{.block_size = block_size, .kv_dtype = kv_dtype, .groups = {}, .bytes_per_block = 0};
  BlockGroup group;
  group.spec = specs[0];
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    if (!std::holds_alternative<model::FullAttentionKv>(specs[i])) {
      return unsupported(
          layer, fmt::format("the layer's KV is \"{}\"; only full attention is supported", kind_name(specs[i])));
    }
    if (specs[i] != specs[0]) {
      return unsupported(layer,
                         "the layer's KV heads or widths differ from layer 0's; they must be alike in every layer");
    }
    group.layers.push_back(layer);
  }
  ULLAGE_TRY(group.page_size_bytes, page_size_bytes(std::get<model::FullAttentionKv>(specs[0]), block_size,
                                                    model::info(kv_dtype).block_bytes));
  if (__builtin_mul_overflow(group.page_size_bytes, static_cast<int64_t>(specs.size()), &layout.bytes_per_block)) {
    return Error{ErrorCode::kTooLarge, "the bytes of one block over all layers do not fit in 63 bits", "layers"};
  }
  layout.groups.push_back(std::move(group));
  return layout;
}

Result<KvLayout> make_kv_layout(const model::ModelShape& shape, int64_t block_size, model::DType kv_dtype) {
  std::vector<model::KvSpec> specs;
  specs.reserve(shape.layers.size());
  for (const model::LayerShape& layer : shape.layers) specs.push_back(model::kv_spec(layer));
  return make_kv_layout(specs, block_size, kv_dtype);
}

int64_t kv_bytes_per_token(const KvLayout& layout) { return layout.bytes_per_block / layout.block_size; }

int64_t num_blocks(const KvLayout& layout, Bytes available) {
  if (available.value <= 0 || layout.bytes_per_block <= 0) return 0;
  // Floor after each division gives the floor of the whole, so one division is vLLM's two.
  return available.value / layout.bytes_per_block;
}

int64_t blocks_per_request(const KvLayout& layout, int64_t max_model_len) {
  return static_cast<int64_t>(layout.groups.size()) * ceil_div(max_model_len, layout.block_size);
}

KvCapacity kv_capacity(const KvLayout& layout, int64_t num_blocks, int64_t max_model_len) {
  ULLAGE_CHECK(num_blocks >= 1 && max_model_len >= 1);
  const auto per_request = static_cast<double>(blocks_per_request(layout, max_model_len));
  KvCapacity capacity;
  // In double and in this order, as vLLM computes it: exact integer arithmetic differs by one token now and then.
  capacity.max_concurrency = static_cast<double>(num_blocks) / per_request;
  capacity.size_tokens = static_cast<int64_t>(capacity.max_concurrency * static_cast<double>(max_model_len));
  capacity.usable_max_concurrency = static_cast<double>(num_blocks - 1) / per_request;
  capacity.usable_tokens = (num_blocks - 1) * layout.block_size;
  return capacity;
}

}  // namespace ullage::memory
