// Models, devices and scenarios for the planner's tests.
#pragma once

#include <cstdint>
#include <string>

#include "ullage/hardware/device.h"
#include "ullage/memory/engine_profile.h"
#include "ullage/model/model_shape.h"
#include "ullage/plan/scenario.h"

namespace ullage::plan {

inline model::ModelShape dense(int64_t layers, int64_t hidden, int64_t intermediate, int64_t heads, int64_t kv_heads,
                               int64_t head_dim, int64_t vocab, int64_t positions) {
  model::ModelShape shape;
  shape.architecture = "llama";
  shape.name = "dense";
  shape.vocab_size = vocab;
  shape.hidden_size = hidden;
  shape.max_position_embeddings = positions;
  model::Attention attention;
  attention.num_heads = heads;
  attention.num_kv_heads = kv_heads;
  attention.head_dim = head_dim;
  model::LayerShape layer;
  layer.mixer = attention;
  layer.ffn = model::DenseFfn{.intermediate_size = intermediate};
  shape.layers.assign(static_cast<size_t>(layers), layer);
  return shape;
}

inline model::ModelShape llama_8b() { return dense(32, 4096, 14336, 32, 8, 128, 128256, 131072); }

// Full and sliding layers in turn, as Gemma 3 has them.
inline model::ModelShape hybrid(int64_t window) {
  model::ModelShape shape = dense(24, 2048, 8192, 16, 8, 128, 32000, 131072);
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    if (i % 6 != 5) std::get<model::Attention>(shape.layers[i].mixer).sliding_window = window;
  }
  return shape;
}

// A scenario with what it points to.
struct World {
  model::ModelShape shape = llama_8b();
  hardware::Device device = *hardware::find_device("h100");
  Scenario scenario;
  explicit World(const char* policy = "vllm-0.29") {
    scenario.shape = &shape;
    scenario.device = &device;
    scenario.profile = *memory::find_engine_profile(policy);
    scenario.prompt_tokens = 4096;
    scenario.output_tokens = 256;
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
};

}  // namespace ullage::plan
