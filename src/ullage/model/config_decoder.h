// Parts of the reader of plain decoders, for families that differ in one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "ullage/model/config_reader.h"
#include "ullage/model/decoder_rules.h"

namespace ullage::model {

// Which layers have experts: mlp_layer_types, moe_layer_freq, first_k_dense_replace, decoder_sparse_step,
// mlp_only_layers and their like, whichever the file has.
Result<std::vector<bool>> read_sparse_layers(const ConfigFields& text, int64_t first_dense, int64_t num_layers);
Result<Attention> read_attention(const ConfigSource& source, const DecoderRules& rules, ModelShape& shape);
Result<void> read_decoder_layers(const ConfigSource& source, const DecoderRules& rules, int64_t num_layers,
                                 ModelShape& shape);
// The whole of it: common fields, layers, draft layers.
Result<void> read_decoder_with(const ConfigSource& source, const DecoderRules& rules, ModelShape& shape);
// Multi-token prediction: num_nextn_predict_layers more layers like the last. REQUIRES: layers are read.
Result<void> read_draft_layers(const ConfigSource& source, ModelShape& shape);

}  // namespace ullage::model
