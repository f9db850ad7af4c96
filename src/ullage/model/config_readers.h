// The readers of config.json, one for each kind of model. Add a declaration here and a row to config_readers.cc.
#pragma once

#include "ullage/model/config_reader.h"

namespace ullage::model {

Result<void> read_decoder(const ConfigSource& source, ModelShape& shape);  // by the rules of decoder_rules.h

}  // namespace ullage::model
