// The rotary part of config.json, in its two spellings.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// `config` is config.json's object; `where` its place; head_dim and max_positions are already checked.
Result<Rope> parse_config_rope(const nlohmann::ordered_json& config, int64_t head_dim, int64_t max_positions,
                               std::string_view where);

}  // namespace ullage::model
