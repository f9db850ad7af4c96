// Collects a model's matrices in order, with their formats: weight_matrices.cc and its parts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ullage/model/model_shape.h"

namespace ullage::model {

class WeightCollector {
 public:
  WeightCollector(const ModelShape& shape, std::vector<WeightMatrix>& out) : shape_(shape), out_(out) {}

  // Draft layers' matrices all have the role kDraft.
  void set_layer(int64_t layer, bool is_draft) {
    layer_ = layer;
    is_draft_ = is_draft;
  }
  int64_t hidden() const { return shape_.hidden_size; }

  void matrix(std::string name, WeightRole role, int64_t rows, int64_t columns, Split split, int64_t num_heads = 0) {
    add(std::move(name), role, rows, columns, split, num_heads, 1, true);
  }
  void experts(std::string name, WeightRole role, int64_t count, int64_t rows, int64_t columns) {
    add(std::move(name), role, rows, columns, Split::kExperts, 0, count, true);
  }
  void vector(std::string name, WeightRole role, int64_t size, Split split = Split::kReplicated,
              int64_t num_heads = 0) {
    add(std::move(name), role, size, 1, split, num_heads, 1, false);
  }
  // A table that is looked up, or a small filter: not multiplied.
  void table(std::string name, WeightRole role, int64_t rows, int64_t columns, Split split) {
    add(std::move(name), role, rows, columns, split, 0, 1, false);
  }
  void expert_vectors(std::string name, WeightRole role, int64_t count, int64_t size) {
    add(std::move(name), role, size, 1, Split::kExperts, 0, count, false);
  }

 private:
  void add(std::string name, WeightRole role, int64_t rows, int64_t columns, Split split, int64_t num_heads,
           int64_t count, bool is_multiplied) {
    WeightMatrix matrix;
    matrix.role = is_draft_ ? WeightRole::kDraft : role;
    matrix.layer = layer_;
    matrix.rows = rows;
    matrix.columns = columns;
    matrix.count = count;
    matrix.split = split;
    matrix.num_heads = num_heads;
    matrix.is_multiplied = is_multiplied;
    matrix.format = format_of(shape_, layer_ < 0 ? name : fmt::format("model.layers.{}.{}", layer_, name), matrix.role);
    matrix.name = std::move(name);
    out_.push_back(std::move(matrix));
  }

  const ModelShape& shape_;
  std::vector<WeightMatrix>& out_;
  int64_t layer_ = -1;
  bool is_draft_ = false;
};

void collect_mixer(WeightCollector& c, const LayerShape& layer);
void collect_ffn(WeightCollector& c, const LayerShape& layer);

}  // namespace ullage::model
