// From what a user calls a model to its shape, for planning: no weights are needed.
#pragma once

#include <memory>
#include <string>

#include "ullage/api/plan_input.h"
#include "ullage/base/result.h"

namespace ullage::cli {

// A config.json, a directory with one, a .gguf or .safetensors file, "-" (a config.json on standard input), a name of
// the Hugging Face cache or of the catalogue, or the bundled model's.
Result<std::shared_ptr<const api::PlanModel>> read_plan_model(const std::string& name);

}  // namespace ullage::cli
