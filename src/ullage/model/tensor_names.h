// Which tensors a model has: for each role its name in either kind of file, and the shape that the ModelShape asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ullage/model/checkpoint.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

enum class TensorNaming : uint8_t { kHuggingFace, kGguf };

struct TensorSpec {
  TensorRole role = TensorRole::kTokenEmbedding;
  int64_t layer = 0;  // 0 for once-a-model roles
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  bool is_optional = false;
};

inline constexpr int kNumTensorRoles = static_cast<int>(TensorRole::kFfnDown) + 1;

// Every tensor the model uses: once-a-model roles first, then layer by layer.
std::vector<TensorSpec> tensor_specs(const ModelShape& shape, TensorNaming naming);

}  // namespace ullage::model
