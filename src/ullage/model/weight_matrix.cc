#include "ullage/model/weight_matrix.h"

#include "ullage/base/units.h"

namespace ullage::model {
namespace {

// Groups along one side: none, one of all, or of a size.
int64_t num_groups(int64_t size, int32_t group) { return group < 0 ? 1 : ceil_div(size, group); }

}  // namespace

int64_t num_parameters(const WeightMatrix& matrix) { return matrix.rows * matrix.columns * matrix.count; }

int64_t stored_bytes(const WeightFormat& format, int64_t rows, int64_t columns) {
  if (rows <= 0 || columns <= 0) return 0;
  int64_t bits = rows * columns * format.element_bits;
  if (format.group_rows != 0 && format.group_columns != 0) {
    const int64_t groups = num_groups(rows, format.group_rows) * num_groups(columns, format.group_columns);
    bits += groups * (format.scale_bits + format.zero_bits);
    if (format.groups_per_super_group > 0) {
      bits += ceil_div(groups, format.groups_per_super_group) * format.super_scale_bits;
    }
  }
  return ceil_div(bits, 8) + format.column_bytes * columns + format.tensor_bytes;
}

int64_t stored_bytes(const WeightMatrix& matrix) {
  return matrix.count * stored_bytes(matrix.format, matrix.rows, matrix.columns);
}

}  // namespace ullage::model
