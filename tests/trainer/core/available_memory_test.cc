#include "trainer/core/available_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "tests/support/temp_directory.h"

namespace lockstep::train {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

struct AvailableMemoryTest : ::testing::Test {
  void Write(const std::string& limit, std::uint64_t used, const std::string& stat) const {
    WriteTextFile(root.At("memory.max"), limit + "\n");
    WriteTextFile(root.At("memory.current"), std::to_string(used) + "\n");
    WriteTextFile(root.At("memory.stat"), stat);
  }
  TempDirectory root;
};

TEST_F(AvailableMemoryTest, IsTheLimitLessWhatIsUsed) {
  Write(std::to_string(1024 * kMib), 1000 * kMib, "anon 1048576000\nfile 0\n");
  EXPECT_EQ(AvailableInCgroup(root.path()), 24 * kMib);
  EXPECT_EQ(LimitOfCgroup(root.path()), 1024 * kMib);
}

TEST_F(AvailableMemoryTest, PagesOfFilesCanBeReclaimed) {
  Write(std::to_string(1024 * kMib), 1024 * kMib,
        "anon 62914560\nfile 1010827264\nfile_mapped 4096\ninactive_anon 0\n"
        "inactive_file 943718400\nactive_file 67108864\nslab_reclaimable 4096\n");
  EXPECT_EQ(AvailableInCgroup(root.path()), (900 + 64) * kMib);
}

// The files are read one after the other, while other processes allocate.
TEST_F(AvailableMemoryTest, NumbersThatDoNotFitTogetherAreBounded) {
  Write(std::to_string(100 * kMib), 50 * kMib, "inactive_file 524288000\n");
  EXPECT_EQ(AvailableInCgroup(root.path()), 100 * kMib);
  Write(std::to_string(100 * kMib), 101 * kMib, "inactive_file 4096\n");
  EXPECT_EQ(AvailableInCgroup(root.path()), 0u);
}

TEST_F(AvailableMemoryTest, ControlGroupsOfVersion1HaveTheirOwnFiles) {
  std::filesystem::create_directory(root.At("memory"));
  WriteTextFile(root.At("memory/memory.limit_in_bytes"), std::to_string(1024 * kMib) + "\n");
  WriteTextFile(root.At("memory/memory.usage_in_bytes"), std::to_string(1000 * kMib) + "\n");
  WriteTextFile(root.At("memory/memory.stat"),
                "inactive_file 4096\nactive_file 4096\ntotal_rss 4096\n"
                "total_inactive_file 104857600\ntotal_active_file 1048576\n");
  EXPECT_EQ(AvailableInCgroup(root.path()), (24 + 100 + 1) * kMib);
  EXPECT_EQ(LimitOfCgroup(root.path()), 1024 * kMib);
  WriteTextFile(root.At("memory/memory.limit_in_bytes"), "9223372036854771712\n");
  EXPECT_EQ(AvailableInCgroup(root.path()), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(LimitOfCgroup(root.path()), std::numeric_limits<std::uint64_t>::max());
}

TEST_F(AvailableMemoryTest, NoLimitIsTheLargestValue) {
  constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(AvailableInCgroup(root.path()), kUnknown);
  EXPECT_EQ(LimitOfCgroup(root.path()), kUnknown);
  Write("max", 50 * kMib, "");
  EXPECT_EQ(AvailableInCgroup(root.path()), kUnknown);
  EXPECT_EQ(LimitOfCgroup(root.path()), kUnknown);
}

TEST_F(AvailableMemoryTest, AMachineHasMoreThanItHasLeft) {
  EXPECT_GT(MemoryLimit(), std::uint64_t{1} << 28);
  EXPECT_LT(MemoryLimit(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_LE(AvailableMemory(), MemoryLimit());
}

}  // namespace
}  // namespace lockstep::train
