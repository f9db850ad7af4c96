// Reader of a Hugging Face config.json.
#pragma once

#include <string_view>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// `json` is the file's text, `where` its path (Errors name a JSON pointer behind it). Absent keys get the defaults of
// transformers' configuration class; sizes that define the model (hidden_size, ...) must be there.
// kUnsupported for model types that Ullage does not know, by name. Models that it knows but cpu/ does not run have
// ModelShape::unservable set.
Result<ModelShape> parse_config(std::string_view json, std::string_view where);

// For those who would run it: kUnsupported, by name, for what cpu/ does not (model/servable.h).
Result<ModelShape> parse_servable_config(std::string_view json, std::string_view where);

}  // namespace ullage::model
