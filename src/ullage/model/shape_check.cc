#include <string>

#include <fmt/format.h>

#include "ullage/model/config_sections.h"
#include "ullage/model/shape_limits.h"

namespace ullage::model {
namespace {

Result<void> check_source(const ModelShape& shape, size_t index, const Attention& attention, std::string_view where) {
  const int64_t source = attention.kv_source_layer;
  if (source < 0) return {};
  const auto invalid = [&](const char* what) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("layer {} would read the keys and values of layer {}, which {}", index, source, what),
                 std::string(where)};
  };
  if (source >= static_cast<int64_t>(index)) return invalid("does not come before it");
  const auto* other = std::get_if<Attention>(&shape.layers[static_cast<size_t>(source)].mixer);
  if (other == nullptr) return invalid("has no attention");
  if (other->kv_source_layer >= 0) return invalid("keeps none of its own");
  return {};
}

}  // namespace

Result<void> check_shape(const ModelShape& shape, std::string_view where) {
  if (shape.layers.empty()) {
    return Error{ErrorCode::kInvalidArgument, "describes a model without layers", std::string(where)};
  }
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const auto* attention = std::get_if<Attention>(&shape.layers[i].mixer);
    if (attention != nullptr) ULLAGE_TRY_VOID(check_source(shape, i, *attention, where));
  }
  // In floating point: the sum below must not overflow before it is compared.
  double parameters = 0;
  for (const WeightMatrix& matrix : weight_matrices(shape)) {
    parameters +=
        static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns) * static_cast<double>(matrix.count);
  }
  if (parameters <= static_cast<double>(kMaxParameters)) return {};
  return Error{ErrorCode::kTooLarge,
               fmt::format("describes a model of {:.3g} parameters; at most {:.3g} are planned for", parameters,
                           static_cast<double>(kMaxParameters)),
               std::string(where)};
}

}  // namespace ullage::model
