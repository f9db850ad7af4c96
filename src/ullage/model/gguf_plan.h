// A GGUF of any architecture as a ModelShape, for planning. What cpu/ runs is read by gguf_shape.h, more strictly.
#pragma once

#include "ullage/base/result.h"
#include "ullage/model/gguf.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// Layers are told by which tensors each has, sizes by the keys that llama.cpp's converters write and by the tensors'
// own; formats by the tensors' types, matrix by matrix. The shape is marked as not servable. kUnsupported, by name, for
// windows without a known pattern and layers without a known mixer. Parse the file with GgufTypes::kAny; join the
// parts of a split one.
Result<ModelShape> planning_shape_from_gguf(const GgufFile& file);

}  // namespace ullage::model
