#include "operator/cli/local/work_dir.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/descriptor.h"
#include "tests/support/planted_link.h"
#include "tests/support/temp_directory.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A folder that others may write to as well: they have put links to a file of this user's there.
class SharedWorkDirTest : public ::testing::Test {
 protected:
  SharedWorkDirTest() { WriteTextFile(victim_, "mine"); }
  void Plant(const std::string& name, testing::Link link = testing::Link::kSymbolic) {
    testing::PlantLink(folder_.At(name), victim_, link);
  }

  const TempDirectory folder_, elsewhere_;
  const std::string victim_ = elsewhere_.At("victim");
};

TEST_F(SharedWorkDirTest, ALinkInPlaceOfTheLockIsRefused) {
  for (const testing::Link link : testing::kLinks) {
    Plant(".lock", link);
    const absl::Status refused = WorkDir::Open(folder_.path(), "j").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(folder_.path() + ": its .lock is a link"));
    EXPECT_EQ(ReadTextFile(victim_), "mine");
  }
}

// A process that its guardian cannot kill holds it: one that waits for a file system, say.
TEST_F(SharedWorkDirTest, WhatARunThatIsGoneHasLeftBehindIsNotWaitedForWithoutEnd) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  WriteTextFile(folder_.At(".lock"), std::to_string(gone));
  const Descriptor left(open(folder_.At(".lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(left.fd(), LOCK_SH), 0);
  const absl::Status refused =
      WorkDir::Open(folder_.path(), "j", std::chrono::milliseconds(50)).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("in use by what the lockstep run of process " + std::to_string(gone) +
                        ", which is gone, has left behind: choose another one"));
  ASSERT_EQ(flock(left.fd(), LOCK_UN), 0);
  EXPECT_TRUE(WorkDir::Open(folder_.path(), "j").ok());
}

// Its process id says nothing here: it is neither gone nor that of a process of ours.
TEST_F(SharedWorkDirTest, AFolderThatARunInAContainerUsesIsRefusedAtOnce) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  WriteTextFile(folder_.At(".lock"), std::to_string(gone) + " pid:[1]");
  const Descriptor run(open(folder_.At(".lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(run.fd(), LOCK_EX), 0);
  constexpr Duration kPatience = std::chrono::minutes(10);
  EXPECT_THAT(std::string(WorkDir::Open(folder_.path(), "j", kPatience).status().message()),
              HasSubstr("is in use by another lockstep run (process " + std::to_string(gone) +
                        " of another container)"));
}

// As `ui` and `top` do, which ask again and again.
TEST_F(SharedWorkDirTest, WhoAsksWhetherARunGoesOnTurnsNoneAway) {
  WriteTextFile(folder_.At(".lock"), std::to_string(getpid()));
  const Descriptor asks(open(folder_.At(".lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(asks.fd(), LOCK_SH), 0);
  constexpr Duration kPatience = std::chrono::milliseconds(50);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(WorkDir::Open(folder_.path(), "j", kPatience).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kPatience) << "it did not wait";
  ASSERT_EQ(flock(asks.fd(), LOCK_UN), 0);
  EXPECT_TRUE(WorkDir::Open(folder_.path(), "j", kPatience).ok());
}

TEST_F(SharedWorkDirTest, AFolderThatARunUsesIsRefusedAtOnce) {
  const auto dir = WorkDir::Open(folder_.path(), "j");
  ASSERT_TRUE(dir.ok()) << dir.status();
  constexpr Duration kPatience = std::chrono::minutes(10);
  EXPECT_THAT(std::string(WorkDir::Open(folder_.path(), "j", kPatience).status().message()),
              HasSubstr("is in use by another lockstep run"));
}

// The process id that it has left behind is that of another process, such as this one.
TEST_F(SharedWorkDirTest, ARunThatWasKilledUsesNoFolderWhoeverHasItsId) {
  {
    const auto dir = WorkDir::Open(folder_.path(), "j");
    ASSERT_TRUE(dir.ok()) << dir.status();
    ASSERT_TRUE(dir->WriteMetricsAddresses({{"worker-0", "127.77.0.1:8080"}}).ok());
    EXPECT_TRUE(WorkDir::ReadMetricsAddresses(folder_.path()).ok());
  }
  EXPECT_THAT(ReadTextFile(folder_.At(".lock")), StartsWith(std::to_string(getpid()) + " "));
  EXPECT_TRUE(absl::IsFailedPrecondition(WorkDir::ReadMetricsAddresses(folder_.path()).status()));
}

TEST_F(SharedWorkDirTest, OthersCannotHoldTheLock) {
  WriteTextFile(folder_.At(".lock"), "1");  // an earlier version's
  ASSERT_EQ(chmod(folder_.At(".lock").c_str(), 0644), 0);
  ASSERT_TRUE(WorkDir::Open(folder_.path(), "j").ok());
  struct stat lock{};
  ASSERT_EQ(::stat(folder_.At(".lock").c_str(), &lock), 0);
  EXPECT_EQ(lock.st_mode & 0777, 0600U);
}

TEST_F(SharedWorkDirTest, APipeInPlaceOfTheAddressesIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(folder_.At("metrics.json").c_str(), 0600), 0);
  const auto dir = WorkDir::Open(folder_.path(), "j");
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_FALSE(WorkDir::ReadMetricsAddresses(folder_.path()).ok());
}

TEST_F(SharedWorkDirTest, ReportsAreNotWrittenThroughALink) {
  const auto dir = WorkDir::Open(folder_.path(), "j");
  ASSERT_TRUE(dir.ok()) << dir.status();
  for (const char* name : {"report.json", "report.json.new", "metrics.json", "metrics.json.new",
                           "view.json", "view.json.new"}) {
    Plant(name);
  }
  EXPECT_TRUE(dir->WriteReport("{}").ok());
  EXPECT_TRUE(dir->WriteMetricsAddresses({{"worker-0", "127.77.0.1:8080"}}).ok());
  EXPECT_TRUE(WorkDir::ReadView(folder_.path()).is_null());
  EXPECT_TRUE(dir->WriteView(R"({"job": null})").ok());
  EXPECT_EQ(ReadTextFile(victim_), "mine");
  EXPECT_TRUE(WorkDir::ReadView(folder_.path()).is_object());
  struct stat view{};
  ASSERT_EQ(::stat(folder_.At("view.json").c_str(), &view), 0);
  EXPECT_EQ(view.st_mode & 0777, 0600U);  // the job has its variables
  EXPECT_EQ(ReadTextFile(folder_.At("report.json")), "{}\n");
  EXPECT_EQ(WorkDir::ReadMetricsAddresses(folder_.path())->at("worker-0"), "127.77.0.1:8080");
}

}  // namespace
}  // namespace lockstep::cli
