#include "ullage/serve/process_stats.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace ullage::serve {
namespace {

// Field numbers of proc(5), stat: counted from 1; the command's name (2) may hold spaces, so counting starts after it.
constexpr int kUserTicks = 14;
constexpr int kSystemTicks = 15;
constexpr int kNumThreads = 20;
constexpr int kStartTicks = 22;
constexpr int kVirtualBytes = 23;
constexpr int kResidentPages = 24;

double boot_seconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

ProcessStats read_process_stats() {
  ProcessStats stats;
  std::ifstream file("/proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  if (name_end != std::string::npos) {
    std::istringstream fields(text.substr(name_end + 2));
    const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    std::string field;
    for (int i = 3; fields >> field && i <= kResidentPages; ++i) {
      const double value = std::strtod(field.c_str(), nullptr);
      if (i == kUserTicks || i == kSystemTicks) stats.cpu_seconds += value / ticks;
      if (i == kNumThreads) stats.num_threads = static_cast<int64_t>(value);
      if (i == kStartTicks) {
        static const double boot = boot_seconds();
        stats.start_seconds = boot + value / ticks;
      }
      if (i == kVirtualBytes) stats.virtual_bytes = static_cast<int64_t>(value);
      if (i == kResidentPages) stats.resident_bytes = static_cast<int64_t>(value) * sysconf(_SC_PAGESIZE);
    }
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error)) {
    ++stats.num_open_fds;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = static_cast<int64_t>(limit.rlim_cur);
  return stats;
}

}  // namespace ullage::serve
