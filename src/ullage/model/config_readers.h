// The readers of config.json, one for each kind of model. Add a declaration here and a row to config_readers.cc.
#pragma once

#include "ullage/model/config_reader.h"

namespace ullage::model {

Result<void> read_decoder(const ConfigSource& source, ModelShape& shape);  // by the rules of decoder_rules.h
Result<void> read_latent_decoder(const ConfigSource& source, ModelShape& shape);
Result<void> read_gemma3n(const ConfigSource& source, ModelShape& shape);
Result<void> read_gemma4(const ConfigSource& source, ModelShape& shape);
Result<void> read_llama4(const ConfigSource& source, ModelShape& shape);
Result<void> read_step(const ConfigSource& source, ModelShape& shape);
Result<void> read_laguna(const ConfigSource& source, ModelShape& shape);
Result<void> read_mimo_v2(const ConfigSource& source, ModelShape& shape);
Result<void> read_nas(const ConfigSource& source, ModelShape& shape);
Result<void> read_classic(const ConfigSource& source, ModelShape& shape);  // GPT-2, GPT-J, NeoX, OPT, BLOOM
Result<void> read_falcon(const ConfigSource& source, ModelShape& shape);
Result<void> read_mpt(const ConfigSource& source, ModelShape& shape);
Result<void> read_chatglm(const ConfigSource& source, ModelShape& shape);
Result<void> read_whisper(const ConfigSource& source, ModelShape& shape);
Result<void> read_bart(const ConfigSource& source, ModelShape& shape);
Result<void> read_t5(const ConfigSource& source, ModelShape& shape);

}  // namespace ullage::model
