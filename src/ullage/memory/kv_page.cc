#include "ullage/memory/kv_page.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/saturating.h"

namespace ullage::memory {
namespace {

using model::KvDType;

constexpr int64_t kMaxNumber = int64_t{1} << 40;  // of a spec's fields: above it something else was meant

Error at_layer(ErrorCode code, std::string what, int64_t layer) {
  return Error{code, std::move(what), fmt::format("layer {}", layer)};
}

Result<void> check_heads(const model::FullAttentionKv& kv, int64_t layer) {
  if (kv.num_kv_heads < 1 || kv.key_dim < 1 || kv.value_dim < 0) {
    return at_layer(
        ErrorCode::kInvalidArgument,
        fmt::format("attention of {} KV heads with keys of {} and values of {} elements; each is at least 1",
                    kv.num_kv_heads, kv.key_dim, kv.value_dim),
        layer);
  }
  if (kv.num_kv_heads > kMaxNumber || kv.key_dim > kMaxNumber || kv.value_dim > kMaxNumber) {
    return at_layer(ErrorCode::kTooLarge,
                    "the bytes of one block do not fit in 63 bits; check heads, head_dim and block size", layer);
  }
  return {};
}

// max(1, heads / tp): ranks beyond the heads keep a copy (vLLM get_num_kv_heads).
model::FullAttentionKv rank_heads(model::FullAttentionKv kv, const KvLayoutOptions& options) {
  kv.num_kv_heads = std::max<int64_t>(1, kv.num_kv_heads / options.tensor_parallel);
  return kv;
}

int64_t head_bytes(const model::FullAttentionKv& kv, KvDType dtype) {
  const int64_t bytes = model::kv_head_bytes(dtype, kv.key_dim);
  return saturating_mul(kv.num_kv_heads,
                        saturating_add(bytes, kv.value_dim > 0 ? model::kv_head_bytes(dtype, kv.value_dim) : 0));
}

// A rank's channels of a convolution: those of heads divided, those of groups divided whole.
int64_t rank_channels(const model::RecurrentState& state, int64_t tp) {
  const int64_t grouped = state.num_groups * state.group_channels;
  const int64_t rank_groups = state.num_groups % tp == 0 ? state.num_groups / tp : 1;
  return ceil_div(state.conv_channels - grouped, tp) + rank_groups * state.group_channels;
}

struct PageOf {
  const KvLayoutOptions& options;
  int64_t layer;

  Result<LayerPage> heads(const model::FullAttentionKv& kv, KvType type, int64_t reach) const {
    ULLAGE_TRY_VOID(check_heads(kv, layer));
    if (options.kv_dtype == KvDType::kFP8DsMla) {
      return at_layer(ErrorCode::kUnsupported,
                      "fp8_ds_mla stores latent attention (MLA) only, and the layer has keys and values of heads; give "
                      "another KV cache dtype",
                      layer);
    }
    const model::FullAttentionKv rank = rank_heads(kv, options);
    return LayerPage{rank, type, reach, head_bytes(rank, options.kv_dtype)};
  }
  Result<LayerPage> local(const model::FullAttentionKv& kv, KvType type, int64_t reach, const char* what) const {
    if (reach < 1 || reach > kMaxNumber) {
      return at_layer(ErrorCode::kInvalidArgument, fmt::format("{} of {} tokens; 1 is the least", what, reach), layer);
    }
    if (options.is_hybrid_disabled) return heads(kv, KvType::kEveryToken, 0);
    if (options.decode_context > 1) {
      return at_layer(ErrorCode::kUnsupported,
                      fmt::format("{} with decode context parallelism is not modelled; vLLM refuses it, too", what),
                      layer);
    }
    return heads(kv, type, reach);
  }

  Result<LayerPage> operator()(const model::FullAttentionKv& kv) const { return heads(kv, KvType::kEveryToken, 0); }
  Result<LayerPage> operator()(const model::SlidingWindowKv& kv) const {
    ULLAGE_TRY(LayerPage page, local(kv.kv, KvType::kWindow, kv.window, "a sliding window"));
    if (page.type == KvType::kWindow) {
      page.spec = model::SlidingWindowKv{std::get<model::FullAttentionKv>(page.spec), kv.window};
    }
    return page;
  }
  Result<LayerPage> operator()(const model::ChunkedLocalKv& kv) const {
    ULLAGE_TRY(LayerPage page, local(kv.kv, KvType::kChunk, kv.chunk, "chunked local attention"));
    if (page.type == KvType::kChunk) {
      page.spec = model::ChunkedLocalKv{std::get<model::FullAttentionKv>(page.spec), kv.chunk};
    }
    return page;
  }
  Result<LayerPage> operator()(const model::CrossAttentionKv& kv) const {
    if (kv.max_encoder_len < 1 || kv.max_encoder_len > kMaxNumber) {
      return at_layer(ErrorCode::kInvalidArgument,
                      fmt::format("cross attention over {} encoder tokens; 1 is the least", kv.max_encoder_len), layer);
    }
    ULLAGE_TRY(LayerPage page, heads(kv.kv, KvType::kEncoder, 0));
    page.spec = model::CrossAttentionKv{std::get<model::FullAttentionKv>(page.spec), kv.max_encoder_len};
    return page;
  }
  Result<LayerPage> operator()(const model::LatentKv& kv) const {
    if (kv.latent_dim < 1 || kv.rope_dim < 0 || kv.latent_dim > kMaxNumber || kv.rope_dim > kMaxNumber) {
      return at_layer(
          ErrorCode::kInvalidArgument,
          fmt::format("latent attention of {} + {} elements a token; 1 + 0 are the least", kv.latent_dim, kv.rope_dim),
          layer);
    }
    const int64_t dim = kv.latent_dim + kv.rope_dim;
    int64_t bytes =
        model::kv_head_bytes(options.kv_dtype, ceil_div(dim, options.latent_padding) * options.latent_padding);
    if (options.kv_dtype == KvDType::kFP8DsMla) {  // FP8 with a scale for each 128, then the rotated part in BF16
      bytes = kv.latent_dim + 4 * ceil_div(kv.latent_dim, 128) + 2 * kv.rope_dim;
    }
    return LayerPage{kv, KvType::kEveryToken, 0, bytes};
  }
  Result<LayerPage> operator()(const model::IndexerKv& kv) const {
    if (kv.head_dim < 1 || kv.head_dim > kMaxNumber) {
      return at_layer(ErrorCode::kInvalidArgument,
                      fmt::format("an indexer's key of {} elements; 1 is the least", kv.head_dim), layer);
    }
    return LayerPage{kv, KvType::kEveryToken, 0, kv.head_dim + 4 * ceil_div(kv.head_dim, 128)};
  }
  Result<LayerPage> operator()(const model::RecurrentState& state) const {
    for (const int64_t n : {state.conv_channels, state.conv_width, state.num_heads, state.state_elements,
                            state.num_groups, state.group_channels}) {
      if (n < 0 || n > kMaxNumber) {
        return at_layer(ErrorCode::kInvalidArgument,
                        fmt::format("a recurrent state with a size of {}; 0 to 2^40 was expected", n), layer);
      }
    }
    if (saturating_mul(state.num_groups, state.group_channels) > state.conv_channels) {
      return at_layer(ErrorCode::kInvalidArgument,
                      fmt::format("{} groups of {} channels are more than the convolution's {}", state.num_groups,
                                  state.group_channels, state.conv_channels),
                      layer);
    }
    const int64_t tp = options.tensor_parallel;
    model::RecurrentState rank = state;
    rank.conv_channels = rank_channels(state, tp);
    rank.num_heads = ceil_div(state.num_heads, tp);
    rank.num_groups = 0;
    rank.group_channels = 0;
    // conv: channels * (kernel - 1 + speculative tokens); state: heads * elements (vLLM MambaStateShapeCalculator).
    const int64_t width = rank.conv_channels > 0 && rank.conv_width > 0
                              ? saturating_add(rank.conv_width, options.num_speculative_tokens)
                              : 0;
    const int64_t conv =
        saturating_mul(saturating_mul(rank.conv_channels, width), model::info(rank.conv_dtype).block_bytes);
    const int64_t heads =
        saturating_mul(saturating_mul(rank.num_heads, rank.state_elements), model::info(rank.state_dtype).block_bytes);
    const int64_t bytes = saturating_add(conv, heads);
    if (bytes < 1) {
      return at_layer(ErrorCode::kInvalidArgument, "a recurrent state of 0 bytes; 1 is the least", layer);
    }
    return LayerPage{rank, KvType::kState, 0, bytes};
  }
  Result<LayerPage> operator()(const model::SharedKv& kv) const { return LayerPage{kv, KvType::kNothing, 0, 0}; }
  Result<LayerPage> operator()(const model::NoKv& kv) const { return LayerPage{kv, KvType::kNothing, 0, 0}; }
};

Result<void> check_range(int64_t value, int64_t low, int64_t high, const char* what, const char* flag) {
  if (value >= low && value <= high) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("expected {} to {} {}, found {}", low, high, what, value),
               flag};
}

}  // namespace

const char* kv_kind_name(const model::KvSpec& spec) {
  struct Namer {
    const char* operator()(const model::FullAttentionKv&) const { return "full attention"; }
    const char* operator()(const model::LatentKv&) const { return "latent (MLA)"; }
    const char* operator()(const model::SlidingWindowKv&) const { return "sliding window"; }
    const char* operator()(const model::ChunkedLocalKv&) const { return "chunked local attention"; }
    const char* operator()(const model::RecurrentState&) const { return "recurrent state"; }
    const char* operator()(const model::IndexerKv&) const { return "sparse indexer"; }
    const char* operator()(const model::CrossAttentionKv&) const { return "cross attention"; }
    const char* operator()(const model::SharedKv&) const { return "shared with another layer"; }
    const char* operator()(const model::NoKv&) const { return "none"; }
  };
  return std::visit(Namer{}, spec);
}

Result<LayerPage> layer_page(const model::KvSpec& spec, const KvLayoutOptions& options, int64_t layer) {
  ULLAGE_TRY(LayerPage page, std::visit(PageOf{options, layer}, spec));
  if (page.bytes == kSaturated) {
    return at_layer(ErrorCode::kTooLarge,
                    "the bytes of one block do not fit in 63 bits; check heads, head_dim and block size", layer);
  }
  return page;
}

bool keeps_every_token(const model::KvSpec& spec) {
  return std::holds_alternative<model::FullAttentionKv>(spec) || std::holds_alternative<model::LatentKv>(spec) ||
         std::holds_alternative<model::IndexerKv>(spec);
}

Error nothing_kept() {
  return Error{ErrorCode::kUnsupported,
               "no layer of the model keeps keys, values or a state; there is no KV cache to plan", "layers"};
}

Result<void> check_options(const KvLayoutOptions& options) {
  constexpr int64_t kMaxTokens = int64_t{1} << 20;
  ULLAGE_TRY_VOID(check_range(options.block_size, 1, kMaxTokens, "tokens in a block", "--block-size"));
  ULLAGE_TRY_VOID(check_range(options.tensor_parallel, 1, 65536, "ranks", "--tensor-parallel-size"));
  ULLAGE_TRY_VOID(check_range(options.decode_context, 1, 65536, "ranks", "--decode-context-parallel-size"));
  ULLAGE_TRY_VOID(check_range(options.num_speculative_tokens, 0, kMaxTokens, "tokens", "--num-speculative-tokens"));
  ULLAGE_TRY_VOID(check_range(options.extra_retained_tokens, 0, kMaxTokens, "tokens", "extra retained tokens"));
  ULLAGE_TRY_VOID(check_range(options.state_chunk_size, 0, kMaxTokens, "tokens", "mamba_chunk_size"));
  ULLAGE_TRY_VOID(check_range(options.latent_padding, 1, 65536, "numbers", "latent padding"));
  ULLAGE_TRY_VOID(check_range(options.group_size_percent, 100, 100'000, "percent", "group size exception"));
  return check_range(options.state_block_alignment, 0, kMaxTokens, "tokens", "state block alignment");
}

Result<int64_t> layer_bytes(const model::KvSpec& spec, const KvLayoutOptions& options) {
  ULLAGE_TRY_VOID(check_options(options));
  ULLAGE_TRY(const LayerPage page, layer_page(spec, options, 0));
  return page.bytes;
}

}  // namespace ullage::memory
