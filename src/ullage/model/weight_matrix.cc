#include "ullage/model/weight_matrix.h"

#include "ullage/base/units.h"

namespace ullage::model {

int64_t num_parameters(const WeightMatrix& matrix) { return matrix.count * matrix.rows * matrix.columns; }

int64_t stored_bytes(const WeightFormat& format, int64_t rows, int64_t columns) {
  int64_t bytes = ceil_div(rows * columns * format.element_bits, 8) + format.tensor_bytes;
  if (format.group_rows != 0 && format.group_columns != 0) {
    const int64_t row_groups = format.group_rows < 0 ? 1 : ceil_div(rows, format.group_rows);
    const int64_t column_groups = format.group_columns < 0 ? 1 : ceil_div(columns, format.group_columns);
    bytes += ceil_div(row_groups * column_groups * (format.scale_bits + format.zero_bits), 8);
  }
  return bytes;
}

int64_t stored_bytes(const WeightMatrix& matrix) {
  return matrix.count * stored_bytes(matrix.format, matrix.rows, matrix.columns);
}

}  // namespace ullage::model
