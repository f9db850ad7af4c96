// Where the executor's memory comes from: every byte is charged to a role when it is handed out (invariant 8).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ullage/base/result.h"

namespace ullage::cpu {

enum class MemoryRole : uint8_t { kRepacked, kKvPool, kWorkspace };
inline constexpr int64_t kNumMemoryRoles = 3;

// Owns what it hands out, until it is destroyed. One thread.
class MemoryLedger {
 public:
  MemoryLedger() = default;
  ~MemoryLedger();
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;

  // Zeroed bytes, aligned to a page; large ones on huge pages where the system gives them (madvise). Pages become real
  // when first touched. `tail_bytes` follow them, charged as workspace: room for vectors that read past the end.
  // An Error says how much was asked for and what the role was.
  Result<std::byte*> allocate(MemoryRole role, int64_t num_bytes, int64_t tail_bytes = 0);
  template <class T>
  Result<T*> allocate_array(MemoryRole role, int64_t count) {
    ULLAGE_TRY(std::byte * bytes, allocate(role, count * static_cast<int64_t>(sizeof(T))));
    return reinterpret_cast<T*>(bytes);
  }

  // Bytes asked for in a role.
  int64_t charged(MemoryRole role) const { return charged_[static_cast<size_t>(role)]; }
  // Bytes asked for in all, counted where they are handed out.
  int64_t handed_out() const;

 private:
  struct Mapping {
    void* address = nullptr;
    int64_t num_bytes = 0;
  };
  std::vector<Mapping> mappings_;
  std::array<int64_t, kNumMemoryRoles> charged_ = {};
};

}  // namespace ullage::cpu
