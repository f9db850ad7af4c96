// The tokenizer that Hugging Face's files describe.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/text/tokenizer.h"

namespace ullage::text {

// As load_tokenizer_json() of tokenizer.h; `eos`: further ids that end a text (generation_config.json's).
Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(std::string_view text, std::string_view config_text,
                                                       std::string_view where, std::span<const TokenId> eos);

}  // namespace ullage::text
