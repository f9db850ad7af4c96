#include "ullage/memory/footprint.h"

#include <fmt/format.h>

namespace ullage::memory {

std::array<FootprintRole, 4> roles(const Footprint& footprint) {
  return {FootprintRole{"weights", footprint.weights}, FootprintRole{"repacked weights", footprint.repacked_weights},
          FootprintRole{"KV pool", footprint.kv_pool}, FootprintRole{"workspace", footprint.workspace}};
}

Bytes total(const Footprint& footprint) {
  Bytes sum;
  for (const FootprintRole& role : roles(footprint)) sum = sum + role.bytes;
  return sum;
}

Result<void> check_sums(const Footprint& footprint, Bytes allocated) {
  if (total(footprint) == allocated) return {};
  return Error{ErrorCode::kInternal,
               fmt::format("the roles sum to {} bytes, {} were allocated: {} bytes have no role",
                           total(footprint).value, allocated.value, allocated.value - total(footprint).value),
               "memory"};
}

std::string format_role(const FootprintRole& role) {
  return fmt::format("{}: {}", role.name, format_bytes(role.bytes));
}

}  // namespace ullage::memory
