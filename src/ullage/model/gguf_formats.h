// How a GGUF stores each matrix, as a Quantization whose groups name them.
#pragma once

#include "ullage/base/result.h"
#include "ullage/model/gguf.h"
#include "ullage/model/quantization.h"

namespace ullage::model {

Result<Quantization> gguf_quantization(const GgufFile& file);
// Of what is not quantised: the plain type with the most bytes among matrices, else F32, which norms and routers have.
DType gguf_plain_dtype(const GgufFile& file);

}  // namespace ullage::model
