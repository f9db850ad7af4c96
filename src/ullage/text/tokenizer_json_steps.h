// The "normalizer", "pre_tokenizer" and "decoder" of a tokenizer.json. Include from .cc files only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/json.h"
#include "ullage/text/bpe_tokenizer.h"

namespace ullage::text {

// What the steps say about the model's alphabet.
struct StepFacts {
  bool is_byte_level = false;       // a ByteLevel pre-tokenizer
  bool strips_first_space = false;  // the decoder drops the space that encoding puts first
};

// Each an Error with code kUnsupported that names an unknown type, and what is supported.
Result<void> read_normalizer(const SortedJson& json, std::vector<NormalizerStep>& steps, const std::string& where);
Result<void> read_pre_tokenizer(const SortedJson& json, std::vector<PreTokenizerStep>& steps, StepFacts& facts,
                                const std::string& where);
Result<void> read_decoder(const SortedJson& json, StepFacts& facts, const std::string& where);

}  // namespace ullage::text
