// The names that checkpoints may call one of our matrices by. Families and tools spell the same module in different
// ways ("mlp", "block_sparse_moe", "mixer"; "model.language_model.layers" or "backbone.layers").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/model/weight_matrix.h"

namespace ullage::model {

struct ModelShape;

// "model.layers.3.mlp.up_proj" is layer 3 and "mlp.up_proj"; a name without a layer is -1 and itself.
struct LayerModule {
  int64_t layer = -1;
  std::string_view name;
};
LayerModule split_layer(std::string_view module);

struct CandidateNames {
  std::vector<std::string> bare;         // as canonical_module spells them: for names and globs
  std::vector<std::string> spelled_out;  // with the beginnings that models have: for regular expressions
  bool is_draft = false;                 // then its layer counts from 0, or from the model's last
};
CandidateNames candidate_names(const ModelShape& shape, std::string_view name, WeightRole role, int64_t layer);

// A pattern without the model's beginning ("model.language_model."), experts' numbers and a family's own word for its
// feed-forward.
std::string canonical_module(std::string_view pattern);

}  // namespace ullage::model
