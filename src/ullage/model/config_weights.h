// Adds matrices outside the layers to ModelShape::other_weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ullage/model/model_shape.h"

namespace ullage::model {

// On every rank whole, unless a split is given. REQUIRES: the shape's weight_dtype and quantization are set, which
// decide the formats.
class OtherWeights {
 public:
  OtherWeights(ModelShape& shape, std::string prefix, WeightRole role);

  // Alike ones from here on: a tower's layers.
  void set_count(int64_t count) { count_ = count; }
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  void matrix(std::string_view name, int64_t rows, int64_t columns, Split split = Split::kReplicated);
  void vector(std::string_view name, int64_t size);
  void table(std::string_view name, int64_t rows, int64_t columns);

 private:
  void add(std::string_view name, int64_t rows, int64_t columns, Split split, bool is_multiplied);

  ModelShape& shape_;
  std::string prefix_;
  WeightRole role_;
  int64_t count_ = 1;
};

}  // namespace ullage::model
