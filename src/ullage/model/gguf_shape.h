// A GGUF's metadata read as a ModelShape.
#pragma once

#include "ullage/base/result.h"
#include "ullage/model/gguf.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// Keys as ggml/docs/gguf.md and llama.cpp's converters write them. Biases and tied embeddings are told by which tensors
// there are. kUnsupported for other architectures, experts, and RoPE scalings that Ullage does not run, each by name.
Result<ModelShape> shape_from_gguf(const GgufFile& file);

}  // namespace ullage::model
