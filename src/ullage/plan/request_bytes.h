// What a request of some length keeps on one rank, layer by layer: the exact bytes, before any rounding to blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/memory/kv_layout.h"

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

// Of layers that make_kv_layout took with these options; errors as its.
Result<RequestShape> request_shape(std::span<const memory::KvLayers> layers, const memory::KvLayoutOptions& options);
// Of a request of `num_tokens`, in all.
int64_t bytes_of(const RequestShape& shape, int64_t num_tokens);

}  // namespace ullage::plan
