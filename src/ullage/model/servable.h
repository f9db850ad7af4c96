// Which shapes the real executor (cpu/) runs. Planning describes any; serving stays exactly as strict as it is.
#pragma once

#include <string_view>

#include "ullage/base/result.h"
#include "ullage/model/model_shape.h"

namespace ullage::model {

// kUnsupported, naming what cpu/ does not run: the architecture, an activation, a rotation, a kind of layer.
Result<void> check_servable(const ModelShape& shape, std::string_view where);

}  // namespace ullage::model
