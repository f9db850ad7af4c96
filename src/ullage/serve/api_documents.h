// The small JSON documents of the API: models, tokens, version.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ullage/base/ids.h"
#include "ullage/serve/model_info.h"
#include "ullage/text/tokenizer.h"

namespace ullage::serve {

std::string format_models(const ModelInfo& model, int64_t created);
// REQUIRES: `id` is one of the model's names.
std::string format_model(const ModelInfo& model, const std::string& id, int64_t created);
// /tokenize; `names` gives each token's spelling, when it is asked for.
std::string format_tokens(std::span<const TokenId> tokens, int64_t max_model_len, const text::Tokenizer* names);
// /detokenize.
std::string format_prompt(const std::string& text);
std::string format_version(const std::string& version);
// /props and /slots, as far as llama-server's clients look there for sizes and load. A slot is a seat of max_num_seqs;
// which request has which is not told.
std::string format_props(const ModelInfo& model, const std::string& version);
std::string format_slots(const ModelInfo& model, int64_t num_live);

}  // namespace ullage::serve
