#include "operator/local/machine_use.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

class MachineUseTest : public ::testing::Test {
 protected:
  MachineUse Run() const {
    auto use = MachineUse::Open(folder_.path());
    EXPECT_TRUE(use.ok()) << use.status();
    return *std::move(use);
  }
  const TempDirectory folder_;
};

TEST_F(MachineUseTest, ARunSeesTheOthersAndNotItself) {
  MachineUse one = Run(), other = Run();
  EXPECT_EQ(one.Others("cpu-1"), 0);
  EXPECT_TRUE(one.Take("cpu-1", 0));
  EXPECT_TRUE(one.Take("cpu-1", 0)) << "it has it";
  EXPECT_EQ(one.Others("cpu-1"), 0);
  EXPECT_EQ(other.Others("cpu-1"), 1);
  EXPECT_EQ(other.Others("gpu-1"), 0);
  EXPECT_TRUE(other.Take("cpu-1", 1));
  EXPECT_EQ(Run().Others("cpu-1"), 2);
  one.Release("cpu-1");
  EXPECT_EQ(Run().Others("cpu-1"), 1);
  EXPECT_EQ(other.Others("cpu-1"), 0);
}

// They may have the same home directory.
TEST_F(MachineUseTest, RunsOnOtherMachinesUseOtherParts) {
  auto here = *MachineUse::Open(folder_.path(), "one"),
       there = *MachineUse::Open(folder_.path(), "two");
  EXPECT_TRUE(here.Take("gpu-0", 0));
  EXPECT_EQ(there.Others("gpu-0"), 0);
  EXPECT_EQ(MachineUse::Open(folder_.path(), "one")->Others("gpu-0"), 1);
  EXPECT_FALSE(BootId().empty());
}

TEST_F(MachineUseTest, NobodyTakesWhatAnotherHasTakenMeanwhile) {
  MachineUse one = Run(), other = Run();
  ASSERT_EQ(one.Others("gpu-0"), other.Others("gpu-0"));
  EXPECT_TRUE(one.Take("gpu-0", 0));
  EXPECT_FALSE(other.Take("gpu-0", 0));
  EXPECT_EQ(one.Others("gpu-0"), 0) << "it has left no mark";
}

TEST_F(MachineUseTest, AResourceOfManyRunsIsTakenWithoutAMark) {
  std::vector<MachineUse> runs;
  for (int run = 0; run < 66; ++run) {
    runs.push_back(Run());
    EXPECT_TRUE(runs.back().Take("gpu-0", std::min(run, 64))) << run;
  }
  EXPECT_EQ(Run().Others("gpu-0"), 64);
}

TEST_F(MachineUseTest, ARunThatIsKilledUsesNothing) {
  const pid_t run = fork();
  if (run == 0) {
    MachineUse use = Run();
    _exit(use.Take("gpu-0", 0) ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(run, &status, 0), run);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Run().Others("gpu-0"), 0);
}

// As in `for rate in …; do lockstep run … & done`.
TEST_F(MachineUseTest, RunsThatBeginTogetherTakeDifferentParts) {
  constexpr int kRuns = 8;
  struct Part {
    std::string resource;
    int load = 0;
  };
  std::vector<MachineUse> uses;
  std::vector<std::string> taken(kRuns);
  for (int run = 0; run < kRuns; ++run) uses.push_back(Run());
  {
    std::vector<std::jthread> runs;
    for (int run = 0; run < kRuns; ++run) {
      runs.emplace_back([&, run] {
        std::vector<Part> parts;
        for (int i = 0; i < kRuns; ++i) parts.push_back({.resource = "gpu-" + std::to_string(i)});
        std::vector<Part*> all;
        for (Part& part : parts) all.push_back(&part);
        taken[run] = TakeLeastUsed(all, 1, &Part::load, &uses[run]).front()->resource;
      });
    }
  }
  std::ranges::sort(taken);
  EXPECT_EQ(std::ranges::unique(taken).size(), 0U);
}

TEST(MachineUseFolderTest, AFolderThatIsNotThereIsNamed) {
  const absl::Status status = MachineUse::Open("/no/such").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_NE(std::string(status.message()).find("/no/such/machine.lock"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::local
