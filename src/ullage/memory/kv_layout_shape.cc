// Layouts of a whole model, and a request's bytes without them.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/check.h"
#include "ullage/base/saturating.h"
#include "ullage/memory/kv_layout.h"
#include "ullage/memory/kv_page.h"

namespace ullage::memory {
namespace {

struct LayerKv {
  model::KvSpec spec;
  int64_t layer = 0;
};

// What each layer keeps, in order; those that keep nothing are left out.
std::vector<LayerKv> kept(const model::ModelShape& shape, bool with_draft) {
  std::vector<LayerKv> all;
  all.reserve(shape.layers.size() + shape.draft_layers.size());
  int64_t index = 0;
  const auto add = [&](const model::LayerShape& layer) {
    for (model::KvSpec& spec : model::kv_specs(layer)) {
      if (std::holds_alternative<model::NoKv>(spec) || std::holds_alternative<model::SharedKv>(spec)) continue;
      all.push_back(LayerKv{spec, index});
    }
    ++index;
  };
  for (const model::LayerShape& layer : shape.layers) add(layer);
  if (with_draft) {
    for (const model::LayerShape& layer : shape.draft_layers) add(layer);
  }
  return all;
}

// Alike ones together; `names` gets the first layer of each.
std::vector<KvLayers> distinct(std::span<const LayerKv> all, std::vector<int64_t>& names) {
  std::vector<KvLayers> kinds;
  kinds.reserve(8);
  names.reserve(8);
  for (const LayerKv& kv : all) {
    const auto same =
        std::find_if(kinds.begin(), kinds.end(), [&](const KvLayers& kind) { return kind.spec == kv.spec; });
    if (same != kinds.end()) {
      ++same->num_layers;
    } else {
      kinds.push_back(KvLayers{kv.spec, 1});
      names.push_back(kv.layer);
    }
  }
  return kinds;
}

// Writes each layer's index into its group: the only one, or of its kind's groups in turn.
Result<void> name_layers(std::span<const LayerKv> all, KvLayout& layout) {
  if (layout.groups.size() == 1) {
    std::vector<int64_t>& layers = layout.groups[0].layers;
    layers.reserve(all.size());
    for (const LayerKv& kv : all) {
      if (layers.empty() || layers.back() != kv.layer) layers.push_back(kv.layer);
    }
    return {};
  }
  struct Kind {
    size_t first_group = 0;
    size_t num_groups = 0;
    size_t next = 0;
  };
  std::vector<Kind> kinds;
  kinds.reserve(layout.groups.size());
  for (size_t i = 0; i < layout.groups.size(); ++i) {
    BlockGroup& group = layout.groups[i];
    group.layers.reserve(static_cast<size_t>(group.num_layers));
    if (i > 0 && layout.groups[i - 1].spec == group.spec) {
      ++kinds.back().num_groups;
    } else {
      kinds.push_back(Kind{i, 1, 0});
    }
  }
  for (const LayerKv& kv : all) {
    ULLAGE_TRY(const LayerPage page, layer_page(kv.spec, layout.options, kv.layer));
    for (Kind& kind : kinds) {
      if (layout.groups[kind.first_group].spec != page.spec) continue;
      layout.groups[kind.first_group + kind.next].layers.push_back(kv.layer);
      kind.next = (kind.next + 1) % kind.num_groups;
      break;
    }
  }
  return {};
}

}  // namespace

std::vector<KvLayers> distinct_kv_layers(const model::ModelShape& shape, bool with_draft) {
  std::vector<int64_t> names;
  return distinct(kept(shape, with_draft), names);
}

Result<KvLayout> make_kv_layout(const model::ModelShape& shape, const KvLayoutOptions& options) {
  const std::vector<LayerKv> all = kept(shape, options.with_draft);
  std::vector<int64_t> names;
  const std::vector<KvLayers> layers = distinct(all, names);
  if (layers.empty() && !shape.layers.empty()) return nothing_kept();
  ULLAGE_TRY(KvLayout layout, make_named_layout(layers, names, options));
  ULLAGE_TRY_VOID(name_layers(all, layout));
  return layout;
}

std::vector<int64_t> stage_bytes_per_block(const KvLayout& layout, const model::ModelShape& shape, int64_t num_stages) {
  ULLAGE_CHECK(num_stages >= 1 && !layout.groups.empty());
  const auto num_layers = static_cast<int64_t>(shape.layers.size());
  const std::vector<LayerKv> all = kept(shape, layout.options.with_draft);
  std::vector<int64_t> bytes(static_cast<size_t>(num_stages), 0);
  for (int64_t stage = 0; stage < num_stages; ++stage) {
    model::LayerRange range = model::stage_layers(num_layers, num_stages, stage);
    if (stage == num_stages - 1) range.end = INT64_MAX;  // draft layers are the last stage's
    const auto is_here = [&](int64_t layer) { return layer >= range.begin && layer < range.end; };
    int64_t& here = bytes[static_cast<size_t>(stage)];
    if (layout.groups.size() == 1) {
      for (const LayerKv& kv : all) {
        const Result<LayerPage> page = layer_page(kv.spec, layout.options, kv.layer);
        ULLAGE_CHECK(page.has_value());
        if (!is_here(kv.layer)) continue;
        here += page->type == KvType::kState ? page->bytes : page->bytes * layout.groups[0].block_size;
      }
      continue;
    }
    int64_t most = 0;
    for (const BlockGroup& group : layout.groups) {
      most = std::max(most, static_cast<int64_t>(std::count_if(group.layers.begin(), group.layers.end(), is_here)));
    }
    here = most * layout.groups[0].page_size_bytes;
  }
  return bytes;
}

Result<RequestBytes> request_bytes(std::span<const KvLayers> layers, const KvLayoutOptions& options,
                                   int64_t num_tokens) {
  ULLAGE_TRY_VOID(check_options(options));
  RequestBytes request;
  request.num_tokens = ceil_div(std::max<int64_t>(num_tokens, 0), options.decode_context);
  for (size_t i = 0; i < layers.size(); ++i) {
    ULLAGE_TRY(const LayerPage page, layer_page(layers[i].spec, options, static_cast<int64_t>(i)));
    const int64_t bytes = saturating_mul(page.bytes, std::max<int64_t>(layers[i].num_layers, 0));
    switch (page.type) {
      case KvType::kEveryToken:
        request.per_token_bytes = saturating_add(request.per_token_bytes, bytes);
        break;
      case KvType::kWindow:
      case KvType::kChunk:
        request.windowed_bytes =
            saturating_add(request.windowed_bytes, saturating_mul(bytes, std::min(request.num_tokens, page.reach)));
        break;
      case KvType::kState:
        request.fixed_bytes = saturating_add(request.fixed_bytes, bytes);
        break;
      case KvType::kEncoder:
        request.fixed_bytes = saturating_add(
            request.fixed_bytes, saturating_mul(bytes, std::get<model::CrossAttentionKv>(page.spec).max_encoder_len));
        break;
      case KvType::kNothing:
        break;
    }
  }
  const int64_t total = saturating_add(saturating_add(request.fixed_bytes, request.windowed_bytes),
                                       saturating_mul(request.per_token_bytes, request.num_tokens));
  if (total == kSaturated) {
    return Error{ErrorCode::kTooLarge, "a request's bytes do not fit in 63 bits; check heads, head_dim and tokens",
                 "layers"};
  }
  return request;
}

Result<int64_t> kv_bytes_per_token(std::span<const KvLayers> layers, const KvLayoutOptions& options) {
  ULLAGE_TRY(const RequestBytes request, request_bytes(layers, options, 1));
  return request.per_token_bytes;
}

int64_t kv_bytes_per_token(const KvLayout& layout) {
  int64_t bytes = 0;
  for (const BlockGroup& group : layout.groups) {
    if (!keeps_every_token(group.spec) || group.block_size < 1) continue;
    const int64_t page = group.has_unlike_pages ? group.page_size_bytes : group.page_size_bytes * group.num_layers;
    bytes += page / group.block_size;
  }
  return bytes;
}

}  // namespace ullage::memory
