#include "ullage/cpu/system_limits.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "ullage/cpu/cpu_executor.h"
#include "ullage/cpu/thread_pool.h"

namespace ullage::cpu {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A number alone in a file; "max" is kNoLimit.
std::optional<int64_t> read_number(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return std::nullopt;
  if (text->starts_with("max")) return kNoLimit;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  return static_cast<int64_t>(std::min<uint64_t>(value, kNoLimit));
}

// The number after `key` at the start of a line ("inactive_file 123", "MemAvailable:  123 kB").
std::optional<int64_t> read_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    if (fields >> word >> value && word == key) return value;
  }
  return std::nullopt;
}

struct Cgroup {
  std::string path;  // "/a/b"; "/" at the top
  bool is_v2 = false;
};

// The process's cgroup for `controller` from /proc/self/cgroup lines "id:controllers:path".
std::vector<Cgroup> find_cgroups(const std::string& root, const std::string& controller) {
  std::vector<Cgroup> found;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      found.push_back({path, true});
    } else if (controllers.find("," + controller + ",") != std::string::npos) {
      found.push_back({path, false});
    }
  }
  return found;
}

// Calls f(folder) for the cgroup and each above it. Inside a container the path may not exist below the mount; the
// mount's own top is then what limits us.
template <class F>
void for_each_level(const std::string& mount, std::string path, const F& f) {
  while (!path.empty() && path != "/") {
    f(mount + path);
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) break;
    path.resize(slash);
  }
  f(mount);
}

void lower(int64_t* least, std::optional<int64_t> limit, std::optional<int64_t> used,
           std::optional<int64_t> reclaimable) {
  if (!limit || *limit == kNoLimit || !used) return;
  const int64_t held = std::max<int64_t>(0, *used - reclaimable.value_or(0));
  *least = std::min(*least, std::max<int64_t>(0, *limit - held));
}

}  // namespace

Bytes available_memory_below(const std::string& root) {
  int64_t least = kNoLimit;
  if (const auto kib = read_field(root + "/proc/meminfo", "MemAvailable:")) least = *kib * 1024;
  for (const Cgroup& group : find_cgroups(root, "memory")) {
    if (group.is_v2) {
      for_each_level(root + "/sys/fs/cgroup", group.path, [&](const std::string& folder) {
        lower(&least, read_number(folder + "/memory.max"), read_number(folder + "/memory.current"),
              read_field(folder + "/memory.stat", "inactive_file"));
      });
    } else {
      for_each_level(root + "/sys/fs/cgroup/memory", group.path, [&](const std::string& folder) {
        lower(&least, read_number(folder + "/memory.limit_in_bytes"), read_number(folder + "/memory.usage_in_bytes"),
              read_field(folder + "/memory.stat", "total_inactive_file"));
      });
    }
  }
  return Bytes(least == kNoLimit ? 0 : least);
}

int64_t cpu_quota_threads(const std::string& root) {
  int64_t least = kNoLimit;
  const auto consider = [&least](int64_t quota, int64_t period) {
    if (quota > 0 && period > 0) least = std::min(least, ceil_div(quota, period));
  };
  for (const Cgroup& group : find_cgroups(root, "cpu")) {
    if (group.is_v2) {
      for_each_level(root + "/sys/fs/cgroup", group.path, [&](const std::string& folder) {
        std::istringstream fields(read_text(folder + "/cpu.max").value_or(""));
        int64_t quota = 0;
        int64_t period = 0;
        if (fields >> quota >> period) consider(quota, period);  // "max 100000" does not start with a number
      });
    } else {
      for_each_level(root + "/sys/fs/cgroup/cpu", group.path, [&](const std::string& folder) {
        std::istringstream quota(read_text(folder + "/cpu.cfs_quota_us").value_or(""));
        std::istringstream period(read_text(folder + "/cpu.cfs_period_us").value_or(""));
        int64_t q = 0;
        int64_t p = 0;
        if (quota >> q && period >> p) consider(q, p);  // a quota of -1 is none
      });
    }
  }
  return least == kNoLimit ? 0 : least;
}

Bytes available_memory() { return available_memory_below(""); }

int64_t available_threads() {
  int64_t count = static_cast<int64_t>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
#endif
  const int64_t quota = cpu_quota_threads("");
  if (quota > 0) count = std::min(count, quota);
  return std::max<int64_t>(1, count);
}

}  // namespace ullage::cpu
