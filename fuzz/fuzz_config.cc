// config.json: an accepted shape has numbers that the rest can compute with.
#include <cstdlib>
#include <string_view>

#include "ullage/model/config.h"
#include "ullage/model/tensor_names.h"

using namespace ullage::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto shape = parse_config({reinterpret_cast<const char*>(data), size}, "fuzz/config.json");
  if (!shape) return 0;
  if (shape->layers.empty() || count_parameters(*shape).total() <= 0) std::abort();
  for (const LayerShape& layer : shape->layers) {
    const auto& attention = std::get<Attention>(layer.mixer);
    if (attention.num_heads % attention.num_kv_heads != 0 || attention.rope.rotary_dim > attention.head_dim)
      std::abort();
    (void)kv_spec(layer);
  }
  (void)tensor_specs(*shape, TensorNaming::kHuggingFace);
  return 0;
}
