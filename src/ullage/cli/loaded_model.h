// A model as the commands need it: weights (or a bare shape), tokenizer and chat template.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ullage/base/result.h"
#include "ullage/cli/engine_args.h"
#include "ullage/model/checkpoint.h"
#include "ullage/text/chat_template.h"
#include "ullage/text/tokenizer.h"

namespace ullage::cli {

// The part of a model that needs no tokenizer.
struct ModelHeader {
  std::optional<model::Checkpoint> checkpoint;  // none when only a config.json was given
  model::ModelShape shape;
  std::string root;  // its path: a client may load a tokenizer from there
};

// `name`: a path, a name in the Hugging Face cache, or the bundled model's. A config.json without weights is an Error
// unless `allow_bare_config`.
Result<ModelHeader> open_model(const std::string& name, bool allow_bare_config);

struct LoadedModel : ModelHeader {
  model::GenerationDefaults generation;
  std::unique_ptr<text::Tokenizer> tokenizer;
  // The template, or why there is none (told when a chat request comes).
  Result<text::ChatTemplate> chat_template = Error{ErrorCode::kUnsupported, "the model has no chat template", ""};
  std::string name;  // "SmolLM2-135M-Instruct-Q4_1": what the API calls it unless --served-model-name says otherwise
};

// Opens args.model. A bare config.json is enough when args.executor is "modelled"; the tokenizer is then the bundled
// model's unless args.tokenizer names another. `chat_template`: a name for text::ChatTemplate::named, or empty.
Result<LoadedModel> load_model(const EngineArgs& args, const std::string& chat_template);

}  // namespace ullage::cli
