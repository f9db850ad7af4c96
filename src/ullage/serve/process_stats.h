// This process as the kernel sees it, for /metrics.
#pragma once

#include <cstdint>

namespace ullage::serve {

struct ProcessStats {
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t num_open_fds = 0;
  int64_t max_fds = 0;
  int64_t num_threads = 0;
  double cpu_seconds = 0;
  double start_seconds = 0;  // since 1970
};

// Reads /proc/self; what cannot be read stays 0. Tens of microseconds.
ProcessStats read_process_stats();

}  // namespace ullage::serve
