// What one layer keeps on one rank, in bytes. Inside memory/.
#pragma once

#include <cstdint>

#include "ullage/base/result.h"
#include "ullage/memory/kv_layout.h"

namespace ullage::memory {

// Layers of one type need the same number of token slots, so they may share a block table though their pages differ.
enum class KvType : uint8_t { kEveryToken, kWindow, kChunk, kState, kEncoder, kNothing };

struct LayerPage {
  model::KvSpec spec;  // of the rank
  KvType type = KvType::kNothing;
  int64_t reach = 0;  // tokens: window or chunk
  int64_t bytes = 0;  // per token; kState: of a state
};

// make_kv_layout, with the model's layer that each entry of `layers` first stands for: errors name it. Empty: their
// index.
Result<KvLayout> make_named_layout(std::span<const KvLayers> layers, std::span<const int64_t> names,
                                   const KvLayoutOptions& options);

// The rank's part of `spec`. `layer` names it in errors.
Result<LayerPage> layer_page(const model::KvSpec& spec, const KvLayoutOptions& options, int64_t layer);
// Full attention, latent, and the indexer's key.
bool keeps_every_token(const model::KvSpec& spec);
// A model without a KV cache.
Error nothing_kept();
// kInvalidArgument, naming the option.
Result<void> check_options(const KvLayoutOptions& options);

}  // namespace ullage::memory
