// The rotary part of config.json, in its two spellings.
#pragma once

#include <string_view>

#include "ullage/base/json_fwd.h"
#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// `config` is config.json's object; `where` its place; head_dim and max_positions are already checked.
Result<Rope> parse_config_rope(const Json& config, int64_t head_dim, int64_t max_positions, std::string_view where);

}  // namespace ullage::model
