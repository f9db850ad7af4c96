#include "ullage/model/loaded_weights.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

#include "ullage/base/units.h"
#include "ullage/model/weight_formats.h"

namespace ullage::model {
namespace {

constexpr int64_t kMaxTablePositions = int64_t{1} << 27;
constexpr int64_t kExpertWidthMultiple = 128;
constexpr int64_t kHiddenSizeMultiple = 256;

int64_t stretched(int64_t positions, double factor) {
  const double length = static_cast<double>(positions) * std::max(factor, 1.0);
  return static_cast<int64_t>(std::min(length, static_cast<double>(kMaxTablePositions)));
}

int64_t table_positions(const Rope& rope, int64_t max_positions) {
  switch (rope.scaling) {
    case RopeScaling::kLinear:
      return stretched(max_positions, rope.factor);
    case RopeScaling::kYarn:
      return stretched(rope.original_max_positions > 0 ? rope.original_max_positions : max_positions, rope.factor);
    default:
      return std::min(max_positions, kMaxTablePositions);
  }
}

}  // namespace

int64_t rotary_table_bytes(const ModelShape& shape) {
  // Images and videos take positions in three dimensions.
  const bool has_mrope = !shape.other_weights.empty() && shape.architecture.starts_with("qwen");
  std::vector<std::tuple<double, int64_t, int64_t>> tables;  // theta, rotary_dim, positions
  tables.reserve(4);
  const auto add = [&](double theta, int64_t dim, int64_t positions) {
    const auto table = std::make_tuple(theta, dim, positions);
    if (dim > 0 && std::find(tables.begin(), tables.end(), table) == tables.end()) tables.push_back(table);
  };
  for (const LayerShape& layer : shape.layers) {
    if (const auto* attention = std::get_if<Attention>(&layer.mixer)) {
      const Rope& rope = attention->rope;
      const int64_t positions = table_positions(rope, shape.max_position_embeddings);
      add(rope.theta, rope.rotary_dim, has_mrope ? std::min(4 * positions, kMaxTablePositions) : positions);
    } else if (const auto* latent = std::get_if<LatentAttention>(&layer.mixer)) {
      add(0, latent->qk_rope_head_dim, std::min(shape.max_position_embeddings, kMaxTablePositions));
    }
  }
  const int64_t element_bytes = shape.weight_dtype == DType::kF32 ? 4 : 2;
  int64_t bytes = 0;
  for (const auto& [theta, dim, positions] : tables) bytes += positions * std::min<int64_t>(dim, 4096) * element_bytes;
  return bytes;
}

WeightMatrix as_loaded(const WeightMatrix& part) {
  if (part.role != WeightRole::kExperts || part.columns == 1 || part.format != mxfp(4)) return part;
  WeightMatrix padded = part;
  const bool is_down = part.name.find("down_proj") != std::string::npos;
  const auto pad = [](int64_t size, int64_t multiple) { return ceil_div(size, multiple) * multiple; };
  padded.rows = pad(part.rows, is_down ? kHiddenSizeMultiple : kExpertWidthMultiple);
  padded.columns = pad(part.columns, is_down ? kExpertWidthMultiple : kHiddenSizeMultiple);
  return padded;
}

std::optional<WeightMatrix> absorbed_copy(const WeightMatrix& matrix, DType plain_dtype) {
  if (!std::string_view(matrix.name).ends_with("kv_b_proj")) return std::nullopt;
  WeightMatrix copy = matrix;
  copy.name += ".absorbed";
  copy.format = plain_format(plain_dtype);
  return copy;
}

}  // namespace ullage::model
