// A checkpoint's tensors as the kernels want them: matrices in place, vectors as padded floats.
#pragma once

#include <vector>

#include "ullage/base/result.h"
#include "ullage/cpu/kernels.h"
#include "ullage/cpu/memory_ledger.h"
#include "ullage/cpu/rope.h"
#include "ullage/model/checkpoint.h"

namespace ullage::cpu {

struct LayerWeights {
  const float* attention_norm = nullptr;  // [hidden_size]
  const float* query_norm = nullptr;      // [head_dim] or null; likewise key_norm
  const float* key_norm = nullptr;
  const float* ffn_norm = nullptr;  // [hidden_size]
  Matrix query, key, value, attention_output, gate, up, down;
  const float* query_bias = nullptr;  // [rows] or null; likewise the others
  const float* key_bias = nullptr;
  const float* value_bias = nullptr;
  const float* output_bias = nullptr;
};

// Views into the checkpoint (matrices) and the ledger (vectors), which outlive this.
struct Weights {
  Matrix embedding;  // [vocab_size, hidden_size]
  Matrix head;       // the embedding when tied
  const float* output_norm = nullptr;
  std::vector<LayerWeights> layers;
  RopeFrequencies rope;
  int64_t mapped_bytes = 0;  // matrices read in place
};

// What this executor can run: dense layers that are all alike. An Error names what is not so.
Result<void> check_runnable(const model::ModelShape& shape);
// REQUIRES: check_runnable(checkpoint.shape()).
Result<Weights> load_weights(const model::Checkpoint& checkpoint, MemoryLedger* ledger);

}  // namespace ullage::cpu
