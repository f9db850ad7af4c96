// config.json: an accepted shape has numbers that the rest can compute with, and is divided and counted without harm.
#include <cstdlib>
#include <string_view>

#include "ullage/model/config.h"
#include "ullage/model/loaded_weights.h"
#include "ullage/model/parallelism.h"
#include "ullage/model/quantization.h"
#include "ullage/model/tensor_names.h"

using namespace ullage::model;

namespace {

void check_layer(const LayerShape& layer) {
  if (const auto* attention = std::get_if<Attention>(&layer.mixer)) {
    if (attention->num_heads % attention->num_kv_heads != 0 || attention->rope.rotary_dim > attention->head_dim) {
      std::abort();
    }
  }
  (void)kv_specs(layer);
}

void divide(const ModelShape& shape, int64_t ranks) {
  Parallelism parallelism;
  parallelism.tensor = ranks;
  if (!check_parallelism(shape, parallelism)) return;
  for (const WeightMatrix& matrix : weight_matrices(shape)) {
    const WeightMatrix part = rank_part(matrix, parallelism);
    if (stored_bytes(part) < 0 || stored_bytes(as_loaded(part)) < stored_bytes(part)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_hf_quant_config(text, "fuzz/hf_quant_config.json");
  const auto shape = parse_config(text, "fuzz/config.json");
  if (!shape) return 0;
  if (shape->layers.empty() || count_parameters(*shape).total() <= 0) std::abort();
  for (const LayerShape& layer : shape->layers) check_layer(layer);
  for (const LayerShape& layer : shape->draft_layers) check_layer(layer);
  divide(*shape, 1);
  divide(*shape, 4);
  if (rotary_table_bytes(*shape) < 0) std::abort();
  if (const auto servable = parse_servable_config(text, "fuzz/config.json")) {
    (void)tensor_specs(*servable, TensorNaming::kHuggingFace);
  }
  return 0;
}
