// Bytes by named role. Every allocation of size is charged to one role, and the roles sum to what was allocated
// (invariant 8).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ullage/base/result.h"
#include "ullage/base/units.h"

namespace ullage::memory {

struct Footprint {
  Bytes weights;           // as stored in the file (mapped or loaded)
  Bytes repacked_weights;  // rewritten for the kernels
  Bytes kv_pool;           // num_blocks * bytes_per_block, the null block included
  Bytes workspace;         // activations, logits, attention scratch
};

struct FootprintRole {
  std::string_view name;  // "weights", "repacked weights", "KV pool", "workspace"
  Bytes bytes;
};

// In the order of boot lines.
std::array<FootprintRole, 4> roles(const Footprint& footprint);
Bytes total(const Footprint& footprint);
// kInternal, with the numbers, unless the roles sum to `allocated`.
Result<void> check_sums(const Footprint& footprint, Bytes allocated);
// "weights: 89.86 MiB": one boot line a role.
std::string format_role(const FootprintRole& role);

}  // namespace ullage::memory
