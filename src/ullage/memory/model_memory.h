// What a budget needs to know of a model, counted once: its matrices grouped into kinds of layers, and its widths. With
// it a budget for any division over ranks costs less than a microsecond and allocates nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "ullage/base/units.h"
#include "ullage/model/model_shape.h"
#include "ullage/model/parallelism.h"

namespace ullage::memory {

// Matrices that lie together, alike ones counted.
struct WeightGroup {
  struct Entry {
    model::WeightMatrix matrix;  // named only as far as its division needs it
    int64_t times = 1;
  };
  std::vector<Entry> entries;
};

struct ModelMemory {
  std::vector<WeightGroup> layer_kinds;
  std::vector<int32_t> layer_kind;  // of each layer
  WeightGroup embedding;            // first stage; the last too when tied
  WeightGroup head;                 // last stage: output head, final norm
  WeightGroup towers;               // first stage
  WeightGroup draft;                // last stage, when drafting
  bool has_tied_embeddings = false;

  // Widths that activations depend on.
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t element_bytes = 2;      // of activations: of the weights that are not quantised
  int64_t intermediate_size = 0;  // the largest of the dense (and shared) feed-forwards
  bool is_gated = true;           // of those
  bool has_int8_inputs = false;   // dense matrices multiply INT8: inputs are quantised beside the plain ones
  // Of the routed experts with the largest workspace; 0 = none.
  int64_t expert_size = 0;
  int64_t experts_per_token = 0;
  int64_t expert_hidden_size = 0;
  bool are_experts_gated = true;
  bool are_experts_mxfp4 = false;  // their kernels keep no workspace
  bool has_tower = false;          // images are encoded
  int64_t rotary_bytes = 0;        // tables of cosines and sines, kept with the weights
};

ModelMemory make_model_memory(const model::ModelShape& shape);

// Bytes of weights on one rank.
struct RankWeights {
  Bytes total;
  Bytes embedding;  // and output head
  Bytes layers;     // attention, dense feed-forward, norms
  Bytes experts;    // routed
  Bytes other;      // towers, draft
};
// Of a rank of one stage. `with_draft`: draft layers are loaded, too. REQUIRES: check_parallelism passed.
RankWeights stage_weights(const ModelMemory& model, const model::Parallelism& parallelism, int64_t stage,
                          bool with_draft = false);
// Of the stage with the most.
RankWeights rank_weights(const ModelMemory& model, const model::Parallelism& parallelism, bool with_draft = false);
RankWeights rank_weights(const model::ModelShape& shape, const model::Parallelism& parallelism,
                         bool with_draft = false);

}  // namespace ullage::memory
