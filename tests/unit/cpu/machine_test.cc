// Threads, memory and limits: what the executor takes from the machine.
#include <atomic>
#include <filesystem>
#include <fstream>

#include "tests/unit/cpu/cpu_test_util.h"
#include "ullage/cpu/memory_ledger.h"
#include "ullage/cpu/system_limits.h"
#include "ullage/cpu/thread_pool.h"

namespace ullage::cpu {
namespace {

TEST(ThreadPool, RunsEveryItemOnceInEveryRegion) {
  for (const int64_t threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t region = 0; region < 300; ++region) {
      const int64_t num_items = region % 7 * region % 40;
      std::vector<std::atomic<int>> seen(static_cast<size_t>(num_items));
      std::atomic<bool> is_known_thread{true};
      pool.run(num_items, [&](int64_t item, int64_t thread) {
        seen[static_cast<size_t>(item)].fetch_add(1);
        if (thread < 0 || thread >= threads) is_known_thread = false;
      });
      for (const auto& count : seen) ASSERT_EQ(count.load(), 1);
      ASSERT_TRUE(is_known_thread);
    }
  }
}

TEST(MemoryLedger, RolesSumToWhatWasHandedOut) {
  MemoryLedger ledger;
  RandomStream random(2);
  int64_t expected[kNumMemoryRoles] = {};
  for (int i = 0; i < 50; ++i) {
    const auto role = static_cast<MemoryRole>(random.below(kNumMemoryRoles));
    const auto bytes = static_cast<int64_t>(random.below(3 << 20));
    const int64_t tail = random.below(3) == 0 ? 64 : 0;
    const auto memory = ledger.allocate(role, bytes, tail);
    ASSERT_TRUE(memory);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 64, 0u);
    for (int64_t b = 0; b < bytes + tail; b += 4096) ASSERT_EQ((*memory)[b], std::byte{0});
    expected[static_cast<size_t>(role)] += bytes;
    expected[static_cast<size_t>(MemoryRole::kWorkspace)] += tail;
  }
  int64_t sum = 0;
  for (int64_t r = 0; r < kNumMemoryRoles; ++r) {
    EXPECT_EQ(ledger.charged(static_cast<MemoryRole>(r)), expected[r]);
    sum += ledger.charged(static_cast<MemoryRole>(r));
  }
  EXPECT_EQ(ledger.handed_out(), sum);
  const auto impossible = ledger.allocate(MemoryRole::kKvPool, int64_t{1} << 60);
  ASSERT_FALSE(impossible);
  EXPECT_EQ(impossible.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(ledger.handed_out(), sum);
}

// A pretended /proc and /sys.
class FakeRoot {
 public:
  FakeRoot() : root_(std::filesystem::path(testing::TempDir()) / ("ullage_limits_" + std::to_string(getpid()))) {}
  ~FakeRoot() { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    const auto full = std::filesystem::path(root_.string() + path);
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string path() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

TEST(AvailableMemory, IsWhatTheMachineHasWithoutACgroup) {
  FakeRoot root;
  EXPECT_EQ(available_memory_below(root.path()).value, 0) << "nothing known";
  root.write("/proc/meminfo", "MemTotal:  8000 kB\nMemAvailable:    3000 kB\n");
  EXPECT_EQ(available_memory_below(root.path()).value, 3000 * 1024);
}

TEST(AvailableMemory, IsTheTightestCgroupOfVersion2) {
  FakeRoot root;
  root.write("/proc/meminfo", "MemAvailable: 1000000 kB\n");
  root.write("/proc/self/cgroup", "0::/a/b\n");
  root.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  root.write("/sys/fs/cgroup/a/b/memory.current", "5000\n");
  EXPECT_EQ(available_memory_below(root.path()).value, 1024000000);
  root.write("/sys/fs/cgroup/a/memory.max", "100000\n");
  root.write("/sys/fs/cgroup/a/memory.current", "60000\n");
  root.write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 20000\nactive_file 7\n");
  EXPECT_EQ(available_memory_below(root.path()).value, 60000) << "the page cache can be given back";
  root.write("/sys/fs/cgroup/memory.max", "50000\n");
  root.write("/sys/fs/cgroup/memory.current", "60000\n");
  EXPECT_EQ(available_memory_below(root.path()).value, 0) << "over the limit already";
}

TEST(AvailableMemory, ReadsVersion1) {
  FakeRoot root;
  root.write("/proc/meminfo", "MemAvailable: 1000000 kB\n");
  root.write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n");
  EXPECT_EQ(available_memory_below(root.path()).value, 1024000000) << "no limit is a huge number";
  root.write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4000\n");
  root.write("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "1500\n");
  EXPECT_EQ(available_memory_below(root.path()).value, 2500);
}

TEST(CpuQuota, IsTheTightest) {
  FakeRoot root;
  root.write("/proc/self/cgroup", "0::/a\n");
  root.write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota_threads(root.path()), 0);
  root.write("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(cpu_quota_threads(root.path()), 3);
  root.write("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota_threads(root.path()), 1);
}

TEST(Limits, OfThisMachineAreSensible) {
  EXPECT_GT(available_memory().value, 0);
  EXPECT_GE(available_threads(), 1);
}

}  // namespace
}  // namespace ullage::cpu
