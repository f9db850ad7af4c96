// Means over samples. Inside observe/.
#pragma once

#include "ullage/observe/steady_state.h"

namespace ullage::observe {

// Fills in everything of `state` that its samples give.
void summarise(SteadyState& state);

}  // namespace ullage::observe
