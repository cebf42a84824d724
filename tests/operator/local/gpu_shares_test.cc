#include "operator/local/gpu_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GpuSharesTest, PodsHaveGpusOfTheirOwnWhileThereAreEnough) {
  GpuShares shares({"0", "1", "2"});
  EXPECT_THAT(shares.Take("a", 1), ElementsAre("0"));
  EXPECT_THAT(shares.Take("b", 2), ElementsAre("1", "2"));
  EXPECT_THAT(shares.Take("a", 1), ElementsAre("0")) << "the same as before";
  EXPECT_THAT(shares.Take("c", 1), ElementsAre("0")) << "each has one owner: the first is shared";
}

TEST(GpuSharesTest, WhatIsGivenBackIsTakenAgain) {
  GpuShares shares({"0", "1"});
  shares.Take("a", 1);
  shares.Take("b", 1);
  shares.GiveBack("b");
  EXPECT_THAT(shares.Take("c", 1), ElementsAre("1"));
}

TEST(GpuSharesTest, NobodyGetsMoreThanThereAre) {
  GpuShares shares({"GPU-5d"});
  EXPECT_THAT(shares.Take("a", 8), ElementsAre("GPU-5d"));
  EXPECT_THAT(GpuShares({}).Take("a", 8), IsEmpty());
}

TEST(GpuSharesTest, WhatRunsBeforeAContainerHasItsGpus) {
  GpuShares shares({"0", "1", "2"});
  const std::vector<std::string> main = shares.Take("a/main", 1);
  EXPECT_THAT(shares.Before(main, "a", 1), ElementsAre("0"));
  EXPECT_THAT(shares.Before(main, "a", 0), IsEmpty());
  EXPECT_THAT(shares.Take("b/main", 1), ElementsAre("1")) << "it takes none";
  EXPECT_THAT(shares.Before(main, "a", 2), ElementsAre("0", "2")) << "it asks for more";
  EXPECT_THAT(shares.Take("c/main", 1), ElementsAre("0")) << "2 is taken";
  shares.GiveBack("a");
  EXPECT_THAT(shares.Take("d/main", 1), ElementsAre("2"));
  EXPECT_THAT(shares.Before(main, "a", 8), ElementsAre("0", "1", "2"));
}

TEST(GpuSharesTest, GpusThatAnotherRunUsesComeLast) {
  const TempDirectory folder;
  auto theirs = MachineUse::Open(folder.path()), ours = MachineUse::Open(folder.path());
  ASSERT_TRUE(theirs.ok() && ours.ok()) << theirs.status();
  GpuShares first({"0", "1"}, &*theirs), second({"0", "1"}, &*ours);
  EXPECT_THAT(first.Take("a", 1), ElementsAre("0"));
  EXPECT_THAT(second.Take("b", 1), ElementsAre("1"));
  EXPECT_THAT(second.Take("c", 1), ElementsAre("0")) << "none is free: pods of one run keep apart";
  first.GiveBack("a");
  second.GiveBack("b");
  second.GiveBack("c");
  EXPECT_THAT(second.Take("d", 1), ElementsAre("0")) << "it is free again";
}

TEST(PermittedGpusTest, AreThoseThatTheVariableLists) {
  EXPECT_THAT(PermittedGpus("3,GPU-5d"), ElementsAre("3", "GPU-5d"));
  EXPECT_THAT(PermittedGpus("0,-1,1"), ElementsAre("0"));
  EXPECT_THAT(PermittedGpus(""), IsEmpty());
  EXPECT_THAT(PermittedGpus("NoDevFiles"), IsEmpty());
}

// A machine with two GPUs.
class GpuFilesTest : public ::testing::Test {
 protected:
  GpuFilesTest() {
    for (const char* folder : {"dev", "gpus", "gpus/0000:01:00.0", "gpus/0000:02:00.0"}) {
      std::filesystem::create_directory(root_.At(folder));
    }
    for (const char* device : {"dev/nvidiactl", "dev/nvidia-uvm", "dev/null"}) Touch(device);
  }
  void Touch(const char* file) { std::ofstream(root_.At(file)) << ""; }

  const TempDirectory root_;
  const GpuFiles files_{.devices = root_.At("dev"),
                        .driver = root_.At("gpus"),
                        .node_maker = root_.At("nvidia-modprobe")};
};

TEST_F(GpuFilesTest, WithoutTheVariableGpusCountWhoseDeviceCanBeOpened) {
  Touch("dev/nvidia0");
  Touch("dev/nvidia11");
  EXPECT_THAT(PermittedGpus(nullptr, files_), ElementsAre("0", "1"));
  EXPECT_THAT(PermittedGpus("3", files_), ElementsAre("3"));
}

TEST_F(GpuFilesTest, AGpuOfTheMachineThatAContainerMayNotUseDoesNotCount) {
  EXPECT_THAT(PermittedGpus(nullptr, files_), IsEmpty());
  Touch("dev/nvidia1");  // CUDA counts it as the first
  EXPECT_THAT(PermittedGpus(nullptr, files_), ElementsAre("0"));
  std::filesystem::create_directory(root_.At("dev/nvidia0"));  // cannot be opened to write
  EXPECT_THAT(PermittedGpus(nullptr, files_), ElementsAre("0"));
}

TEST_F(GpuFilesTest, IfDevicesAreCreatedOnFirstUseTheDriversListCounts) {
  Touch("nvidia-modprobe");
  EXPECT_THAT(PermittedGpus(nullptr, files_), ElementsAre("0", "1"));
  Touch("dev/nvidia0");
  EXPECT_THAT(PermittedGpus(nullptr, files_), ElementsAre("0"));
}

}  // namespace
}  // namespace lockstep::local
