// How a model is divided over devices. In model/, since both what fits (memory/) and what a step costs (cost/) need it.
#pragma once

#include <cstdint>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"
#include "ullage/model/weight_matrix.h"

namespace ullage::model {

struct Parallelism {
  int64_t tensor = 1;                // --tensor-parallel-size: heads and matrices are divided
  int64_t pipeline = 1;              // --pipeline-parallel-size: layers are divided into stages
  int64_t data = 1;                  // --data-parallel-size: attention is replicated; experts may span the replicas
  bool has_expert_parallel = false;  // experts are divided whole over tensor * data ranks
  int64_t decode_context = 1;        // --decode-context-parallel-size: one request's tokens over the ranks of tensor
  int64_t num_devices() const { return tensor * pipeline * data; }
  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

// Heads that do not divide, TP beyond what is legal, more stages than layers: kInvalidArgument, saying what is legal.
Result<void> check_parallelism(const ModelShape& shape, const Parallelism& parallelism);

// One rank's part of a matrix under tensor and expert parallelism (not its stage): rows, columns and count divided, KV
// heads replicated where there are fewer than ranks, vocabularies padded. REQUIRES: check_parallelism passed.
WeightMatrix rank_part(const WeightMatrix& matrix, const Parallelism& parallelism);

// The layers of a stage, [begin, end): as vLLM divides them (what is left over goes to the stages before the last).
struct LayerRange {
  int64_t begin = 0;
  int64_t end = 0;
};
LayerRange stage_layers(int64_t num_layers, int64_t num_stages, int64_t stage);
// Whether a stage has the matrix: its layers; the first also the embedding and towers, the last the final norm, the
// output head (or the embedding when tied) and draft layers.
bool is_on_stage(const ModelShape& shape, const WeightMatrix& matrix, int64_t num_stages, int64_t stage);

}  // namespace ullage::model
