// The rotary part of config.json, in its two spellings.
#pragma once

#include <cstdint>

#include "ullage/base/result.h"
#include "ullage/model/config_fields.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// Which of a model's rotations, where sliding and full layers differ.
struct RopeKind {
  const char* layer_type = "full_attention";  // of rope_parameters' own objects, one a kind
  double default_theta = 10000.0;             // when the file states none
  double local_theta = 0.0;                   // over 0: the sliding layers', which rope_local_base_freq states
};

// head_dim and shape.max_position_embeddings are already checked. A rotation that cpu/ does not run is noted in
// shape.unservable; it changes no size.
Result<Rope> parse_config_rope(const ConfigFields& text, int64_t head_dim, ModelShape& shape,
                               const RopeKind& kind = {});

}  // namespace ullage::model
