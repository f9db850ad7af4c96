#include "ullage/model/config_weights.h"

#include <utility>

#include <fmt/format.h>

namespace ullage::model {

OtherWeights::OtherWeights(ModelShape& shape, std::string prefix, WeightRole role)
    : shape_(shape), prefix_(std::move(prefix)), role_(role) {}

void OtherWeights::matrix(std::string_view name, int64_t rows, int64_t columns, Split split) {
  add(name, rows, columns, split, true);
}

void OtherWeights::vector(std::string_view name, int64_t size) { add(name, size, 1, Split::kReplicated, false); }

void OtherWeights::table(std::string_view name, int64_t rows, int64_t columns) {
  add(name, rows, columns, Split::kVocabulary, false);
}

void OtherWeights::add(std::string_view name, int64_t rows, int64_t columns, Split split, bool is_multiplied) {
  WeightMatrix matrix;
  matrix.name = fmt::format("{}{}", prefix_, name);
  matrix.role = role_;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.count = count_;
  matrix.split = split;
  matrix.is_multiplied = is_multiplied;
  matrix.format = format_of(shape_, matrix.name, role_);
  shape_.other_weights.push_back(std::move(matrix));
}

}  // namespace ullage::model
