#include "ullage/memory/kv_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/saturating.h"
#include "ullage/memory/kv_page.h"

namespace ullage::memory {
namespace {

constexpr int64_t kMaxLayers = 65536;  // far above any model; each may become a group

// Layers that keep the same on a rank, and the page that one block of them is.
struct Kind {
  LayerPage page;
  int64_t num_layers = 0;
  int64_t first = 0;  // the first such layer; names the kind in errors
  int64_t block_size = 0;
  int64_t page_size_bytes = 0;
};

Result<std::vector<Kind>> make_kinds(std::span<const KvLayers> layers, std::span<const int64_t> names,
                                     const KvLayoutOptions& options) {
  std::vector<Kind> kinds;
  kinds.reserve(layers.size());
  int64_t total = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t index = names.empty() ? static_cast<int64_t>(i) : names[i];
    const int64_t n = layers[i].num_layers;
    if (n < 1 || n > kMaxLayers - total) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} alike layers; 1 to {} in all were expected", n, kMaxLayers),
                   fmt::format("layer {}", index)};
    }
    total += n;
    ULLAGE_TRY(LayerPage page, layer_page(layers[i].spec, options, index));
    if (page.type == KvType::kNothing) continue;
    const auto same =
        std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return kind.page.spec == page.spec; });
    if (same != kinds.end()) {
      same->num_layers += n;
    } else {
      kinds.push_back(Kind{page, n, index, 0, 0});
    }
  }
  return kinds;
}

bool is_attention(const Kind& kind) { return kind.page.type != KvType::kState; }

bool is_latent(const Kind& kind) {
  return std::holds_alternative<model::LatentKv>(kind.page.spec) ||
         std::holds_alternative<model::IndexerKv>(kind.page.spec);
}

// The attention layer that stands for all when a state's page is fitted to attention's: the first that keeps every
// token, else the first. An indexer's key is not the model's attention.
const Kind* main_attention(std::span<const Kind> kinds) {
  const Kind* first = nullptr;
  for (const Kind& kind : kinds) {
    if (!is_attention(kind) || std::holds_alternative<model::IndexerKv>(kind.page.spec)) continue;
    if (kind.page.type == KvType::kEveryToken) return &kind;
    if (first == nullptr) first = &kind;
  }
  return first;
}

// Attention's block grows until its page holds a state, and the state is padded to it (vLLM _align_hybrid_block_size).
// `state_page` is 0 without states, or without attention to fit them to.
Result<int64_t> fit_state_page(std::span<const Kind> kinds, const KvLayoutOptions& options, KvLayout& layout) {
  int64_t state = 0;
  for (const Kind& kind : kinds) {
    if (!is_attention(kind)) state = std::max(state, kind.page.bytes);
  }
  const Kind* attention = main_attention(kinds);
  if (state == 0 || attention == nullptr) return 0;
  const int64_t per_token = attention->page.bytes;
  int64_t alignment = options.state_block_alignment;
  if (alignment == 0) {
    // 16 is the smallest block of the common kernels; those of latent attention want multiples of 128.
    const bool is_latent = std::holds_alternative<model::LatentKv>(attention->page.spec);
    alignment = std::max<int64_t>(is_latent ? 128 : 16, options.block_size);
  }
  const bool keeps_all_states = options.has_prefix_caching && options.state_chunk_size > 0;
  if (keeps_all_states) alignment = std::lcm(alignment, options.state_chunk_size);
  layout.state_block_size = saturating_mul(alignment, ceil_div(ceil_div(state, per_token), alignment));
  layout.block_size = std::max(options.block_size, layout.state_block_size);
  const int64_t page = saturating_mul(layout.block_size, per_token);
  if (page == kSaturated) {
    return Error{ErrorCode::kTooLarge, "the bytes of a recurrent state's block do not fit in 63 bits", "layers"};
  }
  layout.state_padding = static_cast<double>(page - state) / static_cast<double>(state);
  return page;
}

Result<void> size_pages(std::span<Kind> kinds, const KvLayoutOptions& options, int64_t state_page, KvLayout& layout) {
  for (Kind& kind : kinds) {
    if (is_attention(kind)) {
      kind.block_size = layout.block_size;
      kind.page_size_bytes = saturating_mul(kind.page.bytes, layout.block_size);
    } else {
      kind.block_size = options.has_prefix_caching ? layout.block_size : 0;
      kind.page_size_bytes = std::max(kind.page.bytes, state_page);
    }
    if (saturating_mul(kind.page_size_bytes, kind.num_layers) == kSaturated) {
      return Error{ErrorCode::kTooLarge,
                   "the bytes of one block do not fit in 63 bits; check heads, head_dim and block size",
                   fmt::format("layer {}", kind.first)};
    }
  }
  return {};
}

// All layers need the same number of token slots (vLLM UniformTypeKVCacheSpecs.is_uniform_type).
bool are_alike(std::span<const Kind> kinds) {
  return std::all_of(kinds.begin(), kinds.end(), [&](const Kind& kind) {
    return kind.page.type == kinds[0].page.type && kind.page.reach == kinds[0].page.reach;
  });
}

void one_group(std::span<const Kind> kinds, KvLayout& layout) {
  BlockGroup group;
  group.spec = kinds[0].page.spec;
  group.block_size = kinds[0].block_size;
  group.has_unlike_pages = kinds.size() > 1;
  for (const Kind& kind : kinds) {
    group.num_layers += kind.num_layers;
    layout.bytes_per_block =
        saturating_add(layout.bytes_per_block, saturating_mul(kind.page_size_bytes, kind.num_layers));
  }
  group.page_size_bytes = kinds.size() > 1 ? layout.bytes_per_block : kinds[0].page_size_bytes;
  layout.groups.push_back(std::move(group));
}

// Makes all pages as large as the largest: an attention layer's block takes more tokens, a state is padded; attention
// of heads whose page does not divide it is padded, where the engine can do that (vLLM unify_kv_cache_spec_page_size).
// False: it cannot be done; `failed` is the kind.
bool unify_pages(std::span<Kind> kinds, bool pads_unlike_pages, const Kind*& failed) {
  int64_t largest = 0;
  for (const Kind& kind : kinds) largest = std::max(largest, kind.page_size_bytes);
  for (const Kind& kind : kinds) {
    if (!is_attention(kind) || largest % kind.page_size_bytes == 0) continue;
    if (pads_unlike_pages && !is_latent(kind)) continue;
    failed = &kind;
    return false;
  }
  for (Kind& kind : kinds) {
    if (is_attention(kind) && largest % kind.page_size_bytes == 0) {
      kind.block_size = saturating_mul(kind.block_size, largest / kind.page_size_bytes);
    }
    kind.page_size_bytes = largest;
  }
  return true;
}

// Where pages cannot be made equal, latent attention beside windows is kept as one group in which the windows keep
// every token (vLLM _try_get_full_allocation_fallback_groups). False: another mix.
bool promote_windows(std::span<Kind> kinds) {
  bool has_latent = false;
  for (const Kind& kind : kinds) {
    has_latent = has_latent || std::holds_alternative<model::LatentKv>(kind.page.spec);
    if (kind.page.type != KvType::kEveryToken && kind.page.type != KvType::kWindow) return false;
  }
  if (!has_latent) return false;
  for (Kind& kind : kinds) {
    if (const auto* window = std::get_if<model::SlidingWindowKv>(&kind.page.spec)) {
      const model::FullAttentionKv full = window->kv;
      kind.page.spec = full;
    }
    kind.page.type = KvType::kEveryToken;
    kind.page.reach = 0;
  }
  return true;
}

// Every group has as many layers as the smallest kind, or as the largest when that is not much more; each
// kind's layers are dealt out to its groups in turn (vLLM _get_kv_cache_groups_uniform_page_size).
void many_groups(std::span<const Kind> kinds, const KvLayoutOptions& options, KvLayout& layout) {
  int64_t least = kinds[0].num_layers;
  int64_t most = least;
  for (const Kind& kind : kinds) {
    least = std::min(least, kind.num_layers);
    most = std::max(most, kind.num_layers);
  }
  const int64_t group_size =
      options.has_group_size_exception && 100 * most < options.group_size_percent * least ? most : least;
  int64_t num_groups = 0;
  for (const Kind& kind : kinds) num_groups += ceil_div(kind.num_layers, group_size);
  layout.groups.reserve(static_cast<size_t>(num_groups));
  for (const Kind& kind : kinds) {
    const int64_t n = ceil_div(kind.num_layers, group_size);
    for (int64_t i = 0; i < n; ++i) {
      BlockGroup& group = layout.groups.emplace_back();
      group.spec = kind.page.spec;
      group.num_layers = ceil_div(kind.num_layers - i, n);
      group.block_size = kind.block_size;
      group.page_size_bytes = kind.page_size_bytes;
    }
  }
  layout.bytes_per_block = saturating_mul(kinds[0].page_size_bytes, group_size);
}

Error unlike_pages(const Kind& failed, std::span<const Kind> kinds) {
  int64_t largest = 0;
  for (const Kind& kind : kinds) largest = std::max(largest, kind.page_size_bytes);
  return Error{ErrorCode::kUnsupported,
               fmt::format("a block of the layer takes {} bytes, which does not divide the largest layer's {}; this "
                           "engine cannot keep them in one pool",
                           failed.page_size_bytes, largest),
               fmt::format("layer {}", failed.first)};
}

}  // namespace

Result<KvLayout> make_named_layout(std::span<const KvLayers> layers, std::span<const int64_t> names,
                                   const KvLayoutOptions& options) {
  ULLAGE_TRY_VOID(check_options(options));
  if (layers.empty()) return Error{ErrorCode::kInvalidArgument, "a model has at least one layer", "layers"};
  ULLAGE_TRY(std::vector<Kind> kinds, make_kinds(layers, names, options));
  if (kinds.empty()) return nothing_kept();
  KvLayout layout;
  layout.options = options;
  layout.block_size = options.block_size;
  ULLAGE_TRY(const int64_t state_page, fit_state_page(kinds, options, layout));
  ULLAGE_TRY_VOID(size_pages(kinds, options, state_page, layout));
  const Kind* failed = nullptr;
  const bool are_unified = !are_alike(kinds) && unify_pages(kinds, options.pads_unlike_pages, failed);
  if (are_unified) {
    many_groups(kinds, options, layout);
  } else if (failed == nullptr || promote_windows(kinds)) {
    one_group(kinds, layout);
  } else {
    return unlike_pages(*failed, kinds);
  }
  if (layout.bytes_per_block == kSaturated) {
    return Error{ErrorCode::kTooLarge, "the bytes of one block over all layers do not fit in 63 bits", "layers"};
  }
  return layout;
}

Result<KvLayout> make_kv_layout(std::span<const KvLayers> layers, const KvLayoutOptions& options) {
  return make_named_layout(layers, {}, options);
}

}  // namespace ullage::memory
