#include "system/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

#include "support/sanitizers.h"
#include "support/temporary_folder.h"

namespace posenc {
namespace {

using testing::TemporaryFolder;
using testing::write_content;

class AvailableMemory : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    write_content(folder_ / name, content);
  }
  TemporaryFolder folder_;
};

TEST_F(AvailableMemory, IsWhatTheMachineHas) {
  put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\nSwapFree:  1000 kB\n");
  EXPECT_EQ(available_memory_bytes(folder_.path()), 5000 * 1024);
  EXPECT_GT(available_memory_bytes().value_or(0), 1 << 20) << "of this machine";
}

TEST_F(AvailableMemory, IsWhatTheControlGroupsLeave) {
  put("proc/meminfo", "MemAvailable: 4000000 kB\n");
  put("proc/self/cgroup", "0::/outer/inner\n");
  put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put("sys/fs/cgroup/outer/inner/memory.current", "100\n");
  put("sys/fs/cgroup/outer/memory.max", "1000000\n");
  put("sys/fs/cgroup/outer/memory.current", "700000\n");
  put("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 200000\n");
  EXPECT_EQ(available_memory_bytes(folder_.path()), 500000) << "cache is given back when asked for";
}

TEST_F(AvailableMemory, KnowsTheFirstVersionOfControlGroups) {
  put("proc/meminfo", "MemAvailable: 4000000 kB\n");
  put("proc/self/cgroup", "5:cpu:/x\n4:cpuset,memory:/docker/1\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(available_memory_bytes(folder_.path()), 2000);
}

TEST_F(AvailableMemory, IsUnknownWhereTheSystemSaysNothing) {
  EXPECT_EQ(available_memory_bytes(folder_.path()), std::nullopt);
}

// Pages that the system had to clear for a block of 64 MiB.
long pages_cleared() {
  constexpr std::size_t kBytes = 64 << 20;
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  char* block = static_cast<char*>(std::malloc(kBytes));
  std::memset(block, 1, kBytes);
  asm volatile("" : : "r"(block) : "memory");  // so that the block is not left out
  std::free(block);
  ::getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

// In processes of their own, because the setting stays.
TEST(KeepFreedMemory, ServesTheNextBlockFromTheLast) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers have an allocator of their own";
  EXPECT_EXIT(
      {
        keep_freed_memory();
        const long first = pages_cleared();
        std::_Exit(pages_cleared() <= first / 4 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        const long first = pages_cleared();
        std::_Exit(pages_cleared() < first / 2 ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "")
      << "the setting is not needed: freed memory is kept without it";
}

}  // namespace
}  // namespace posenc
