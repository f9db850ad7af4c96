// Reader of a Hugging Face config.json.
#pragma once

#include <string_view>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// `json` is the file's text, `where` its path (Errors name a JSON pointer behind it). Absent keys get the defaults of
// transformers' configuration class; sizes that define the model (hidden_size, ...) must be there.
// kUnsupported for model types, activations and RoPE scalings that Ullage does not run, each by name.
Result<ModelShape> parse_config(std::string_view json, std::string_view where);

}  // namespace ullage::model
