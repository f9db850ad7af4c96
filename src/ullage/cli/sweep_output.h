// Prints a sweep's rows as they come.
#pragma once

#include "ullage/api/sweep.h"
#include "ullage/base/result.h"

namespace ullage::cli {

enum class SweepFormat : uint8_t { kText, kCsv, kJsonLines };

// The exit code: 0, or 130 when it was interrupted, what there is printed.
Result<int> print_sweep(api::Sweep& sweep, SweepFormat format);

}  // namespace ullage::cli
