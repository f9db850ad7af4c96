// What a model's files say about ending, sampling and chat.
#pragma once

#include <string>

#include "ullage/base/result.h"
#include "ullage/model/checkpoint.h"
#include "ullage/model/gguf.h"

namespace ullage::model {

// From tokenizer.ggml.{eos,eot,eom,bos}_token_id.
Result<GenerationDefaults> generation_from_gguf(const GgufFile& file, int64_t vocab_size);
// From generation_config.json; what it does not say about ending, from config.json. Missing files say nothing.
Result<GenerationDefaults> generation_from_directory(const std::string& directory, int64_t vocab_size);
// chat_template.jinja, or tokenizer_config.json's chat_template: its text, or its list's "default". Empty when there is
// none.
Result<std::string> chat_template_from_directory(const std::string& directory);

}  // namespace ullage::model
