#include "ullage/cpu/memory_ledger.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "ullage/base/units.h"

namespace ullage::cpu {
namespace {

constexpr const char* kRoleNames[kNumMemoryRoles] = {"repacked weights", "KV pool", "workspace"};
constexpr int64_t kHugePageBytes = 2 * kMiB;

}  // namespace

MemoryLedger::~MemoryLedger() {
  for (const Mapping& m : mappings_) munmap(m.address, static_cast<size_t>(m.num_bytes > 0 ? m.num_bytes : 1));
}

Result<std::byte*> MemoryLedger::allocate(MemoryRole role, int64_t num_bytes, int64_t tail_bytes) {
  const int64_t all_bytes = num_bytes + tail_bytes;
  void* address = mmap(nullptr, static_cast<size_t>(all_bytes > 0 ? all_bytes : 1), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return Error{
        ErrorCode::kTooLarge,
        fmt::format("cannot reserve {} for the {} ({}); lower the model's length, the number of sequences or the "
                    "KV cache's memory",
                    format_bytes(Bytes(num_bytes)), kRoleNames[static_cast<size_t>(role)], std::strerror(errno)),
        "memory"};
  }
  if (all_bytes >= kHugePageBytes) madvise(address, static_cast<size_t>(all_bytes), MADV_HUGEPAGE);  // a hint only
  mappings_.push_back({address, all_bytes});
  charged_[static_cast<size_t>(role)] += num_bytes;
  charged_[static_cast<size_t>(MemoryRole::kWorkspace)] += tail_bytes;
  return static_cast<std::byte*>(address);
}

int64_t MemoryLedger::handed_out() const {
  int64_t sum = 0;
  for (const Mapping& m : mappings_) sum += m.num_bytes;
  return sum;
}

}  // namespace ullage::cpu
