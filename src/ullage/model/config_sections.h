// The sections of a multimodal model's config.json: which one is the language model, and what the others weigh.
#pragma once

#include <string_view>

#include "ullage/base/result.h"
#include "ullage/model/config_reader.h"

namespace ullage::model {

// The language model's section: the file itself, its text_config, or where else the model_type keeps it.
// kUnsupported for a nested file whose model_type is unknown: its towers' weights would be a guess.
Result<ConfigSource> find_text_section(const ConfigFields& file);

// Adds the weights of vision and audio towers and their projectors to shape.other_weights. REQUIRES: hidden_size is
// set.
Result<void> read_towers(const ConfigSource& source, ModelShape& shape);

// What every reader must have ensured: layers there, sizes in bounds, sources of shared keys exist, and the parameters
// of the whole fit in 63 bits.
Result<void> check_shape(const ModelShape& shape, std::string_view where);

}  // namespace ullage::model
