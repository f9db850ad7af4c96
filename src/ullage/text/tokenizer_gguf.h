// The tokenizer that a GGUF file's metadata describes.
#pragma once

#include <memory>
#include <span>

#include "ullage/base/result.h"
#include "ullage/model/gguf.h"
#include "ullage/text/tokenizer.h"

namespace ullage::text {

// Reads the keys under tokenizer.ggml (github.com/ggml-org/ggml, docs/gguf.md). `eos`: further ids that end a text.
Result<std::unique_ptr<Tokenizer>> load_tokenizer_gguf(const model::GgufFile& gguf, std::span<const TokenId> eos = {});

}  // namespace ullage::text
