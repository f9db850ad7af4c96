// What this process may use of the machine: affinity, cgroup (v1 and v2) and free memory.
#pragma once

#include <cstdint>
#include <string>

#include "ullage/base/units.h"

namespace ullage::cpu {

// The least of MemAvailable and, for the process's cgroup and each above it, its limit minus what it uses and cannot
// give back (the inactive part of the page cache counts as free). `root` is "" but in tests: the place of /proc and
// /sys.
Bytes available_memory_below(const std::string& root);

// ceil(quota / period) of the tightest cgroup, or 0 when none limits the CPU.
int64_t cpu_quota_threads(const std::string& root);

}  // namespace ullage::cpu
