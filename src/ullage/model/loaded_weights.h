// What engines keep in memory with the weights and no checkpoint has: tables of rotations, padding for kernels, second
// copies. Modelled on vLLM; the differences are said at each.
#pragma once

#include <cstdint>
#include <optional>

#include "ullage/model/model_shape.h"
#include "ullage/model/weight_matrix.h"

namespace ullage::model {

// Tables of cosines and sines, one for each kind of rotation, that every rank and stage keeps: positions x rotary_dim
// of the weights' plain type. vLLM's rotary_embedding makes linear scaling's table longer by its factor, YaRN's as long
// as the stretched context, and that of images and videos (Qwen's mrope) four times as long.
int64_t rotary_table_bytes(const ModelShape& shape);

// The matrix as kernels want it: FP4 experts with 8-bit exponents are padded (vLLM's mxfp4.py for Marlin: widths of
// experts to 128, the hidden size to 256). REQUIRES: a rank's part.
WeightMatrix as_loaded(const WeightMatrix& part);

// Latent attention keeps its up-projection of keys and values a second time, plainly stored and split in two, to absorb
// it into queries and outputs (vLLM's mla attention, process_weights_after_loading); nothing for other matrices.
std::optional<WeightMatrix> absorbed_copy(const WeightMatrix& matrix, DType plain_dtype);

}  // namespace ullage::model
