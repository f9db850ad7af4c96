// What a request of some length keeps on one rank, layer by layer: the exact bytes, before any rounding to blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ullage/memory/kv_layout.h"
#include "ullage/model/model_shape.h"

namespace ullage::plan {

// Layers whose keys and values end at a window or a chunk.
struct WindowedBytes {
  int64_t bytes_per_token = 0;
  int64_t reach = 0;  // tokens
};

struct RequestShape {
  int64_t fixed_bytes = 0;      // states, and an encoder's output
  int64_t bytes_per_token = 0;  // of layers that keep every token
  std::vector<WindowedBytes> windows;
};

// `options` gives dtype, tensor parallelism and speculative tokens.
RequestShape request_shape(std::span<const memory::KvLayers> layers, const memory::KvLayoutOptions& options);
// Of a request of `num_tokens`, in all.
int64_t bytes_of(const RequestShape& shape, int64_t num_tokens);

// Layers [begin, end) by what they keep, alike ones together, in the order in which each kind appears first.
std::vector<memory::KvLayers> collapse_layers(std::span<const model::LayerShape> layers);
void add_layers(std::vector<memory::KvLayers>& collapsed, std::span<const model::LayerShape> layers);

}  // namespace ullage::plan
