#include "ullage/model/config_sections.h"

namespace ullage::model {

Result<void> read_towers(const ConfigSource& /*source*/, ModelShape& /*shape*/) { return {}; }

}  // namespace ullage::model
