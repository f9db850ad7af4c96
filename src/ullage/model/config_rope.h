// The rotary part of config.json, in its two spellings.
#pragma once

#include <cstdint>

#include "ullage/base/result.h"
#include "ullage/model/config_fields.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// head_dim and shape.max_position_embeddings are already checked. A rotation that cpu/ does not run is noted in
// shape.unservable; it changes no size.
Result<Rope> parse_config_rope(const ConfigFields& text, int64_t head_dim, ModelShape& shape);

}  // namespace ullage::model
