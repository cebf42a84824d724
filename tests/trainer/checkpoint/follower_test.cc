#include "trainer/checkpoint/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fault_file_system.h"
#include "tests/trainer/checkpoint/snapshots.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

// Calls `before` ahead of each read of a file, and fails to read what begins with `unreadable`.
// Refuses every change: a follower makes none.
class ReadOnlyFileSystem final : public FileSystem {
 public:
  explicit ReadOnlyFileSystem(FileSystem& files) : files_(files) {}
  std::function<void(const std::string& path)> before = [](const std::string&) {};
  std::string unreadable = "nothing";

  absl::StatusOr<std::string> ReadFile(const std::string& path, std::uint64_t most) override {
    before(path);
    if (path.starts_with(unreadable)) return absl::UnknownError(path + ": Input/output error");
    return files_.ReadFile(path, most);
  }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    if (path.starts_with(unreadable)) return absl::UnknownError(path + ": Input/output error");
    return files_.ListDirectory(path);
  }
  absl::StatusOr<Kind> KindOf(const std::string& path) override { return files_.KindOf(path); }
  absl::Status CreateDirectories(const std::string&) override { return Refused(); }
  absl::Status CreateDirectory(const std::string&) override { return Refused(); }
  absl::Status WriteFile(const std::string&,
                         const std::vector<std::span<const std::byte>>&) override {
    return Refused();
  }
  absl::Status Rename(const std::string&, const std::string&) override { return Refused(); }
  absl::Status SyncDirectory(const std::string&) override { return Refused(); }
  absl::Status RemoveRecursively(const std::string&) override { return Refused(); }

 private:
  static absl::Status Refused() {
    ADD_FAILURE() << "a follower has changed the directory";
    return absl::PermissionDeniedError("read-only");
  }
  FileSystem& files_;
};

class FollowerTest : public ::testing::Test {
 protected:
  void OpenStore(int keep) { store_ = *CheckpointStore::Open(files_, "/ckpt", keep, kFirstOwner); }
  void Save(std::int64_t step) { ASSERT_TRUE(store_->Save(SnapshotOfStep(step)).ok()); }
  // The step of the next checkpoint, -1 for none.
  std::int64_t Next(CheckpointFollower& follower) {
    const auto next = follower.Next("model-a", CheckpointParts::kModelAndOptimizer);
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok() || !next->has_value()) return -1;
    EXPECT_TRUE(SameSnapshot(**next, SnapshotOfStep((*next)->step)));
    return (*next)->step;
  }

  FaultFileSystem files_;
  ReadOnlyFileSystem watched_{files_};
  std::unique_ptr<CheckpointStore> store_;
  CheckpointFollower follower_{watched_, "/ckpt"};
};

TEST_F(FollowerTest, ADirectoryThatDoesNotExistYetHasNoCheckpoints) {
  EXPECT_EQ(Next(follower_), -1);
}

TEST_F(FollowerTest, ReturnsEachCheckpointOnceAndTheOldestFirst) {
  OpenStore(3);
  Save(10);
  EXPECT_EQ(Next(follower_), 10);
  EXPECT_EQ(Next(follower_), -1);
  Save(20);
  Save(30);
  EXPECT_EQ(Next(follower_), 20);
  EXPECT_EQ(Next(follower_), 30);
  EXPECT_EQ(Next(follower_), -1);
  EXPECT_EQ(follower_.skipped(), 0);
}

TEST_F(FollowerTest, WithoutTheOptimizerOnlyTheModelIsRead) {
  OpenStore(3);
  Save(10);
  files_.Content("/ckpt/step-00000010/optimizer.safetensors").clear();
  const auto next = follower_.Next("model-a", CheckpointParts::kModel);
  ASSERT_TRUE(next.ok() && next->has_value()) << next.status();
  EXPECT_EQ((*next)->model, SnapshotOfStep(10).model);
  EXPECT_TRUE((*next)->optimizer.empty());
}

TEST_F(FollowerTest, OneThatIsNotCommittedIsNotThereYet) {
  OpenStore(3);
  Save(10);
  ASSERT_TRUE(files_.RemoveRecursively("/ckpt/step-00000010/manifest.json").ok());
  EXPECT_EQ(Next(follower_), -1);
}

TEST_F(FollowerTest, ContinuesBehindTheStepThatItIsGiven) {
  OpenStore(3);
  for (const int step : {10, 20, 30}) Save(step);
  CheckpointFollower follower(watched_, "/ckpt", {.after = 20});
  EXPECT_EQ(follower.newest(), 20);
  EXPECT_EQ(Next(follower), 30);
}

TEST_F(FollowerTest, OneThatRetentionRemovesWhileItIsReadIsSkipped) {
  OpenStore(1);
  std::int64_t step = 0, skipped = 0;
  for (const std::string file : {"manifest.json", "model.safetensors", "optimizer.safetensors"}) {
    Save(++step);
    watched_.before = [&](const std::string& path) {
      if (path == "/ckpt/" + api::CheckpointName{step, 0}.ToString() + "/" + file) Save(++step);
    };
    EXPECT_EQ(Next(follower_), -1) << "it is gone, and the next was saved after the look";
    watched_.before = [](const std::string&) {};
    EXPECT_EQ(Next(follower_), step);
    EXPECT_EQ(follower_.skipped(), ++skipped);
  }
}

TEST_F(FollowerTest, OnesThatWereSeenAndRemovedCountAsSkipped) {
  OpenStore(1);
  for (const int step : {10, 20, 30}) {
    Save(step);
    ASSERT_TRUE(follower_.Look().ok());
  }
  EXPECT_EQ(Next(follower_), 30);
  EXPECT_EQ(follower_.skipped(), 2);
}

TEST_F(FollowerTest, OneThatIsFarBehindGoesToTheNewest) {
  OpenStore(100);
  const auto most = static_cast<int>(CheckpointFollower::kMostBehind);
  for (int step = 1; step <= most; ++step) Save(step);
  CheckpointFollower in_time(watched_, "/ckpt");
  EXPECT_EQ(Next(in_time), 1);
  Save(most + 1);
  EXPECT_EQ(Next(follower_), most + 1);
  EXPECT_EQ(follower_.skipped(), most);
}

TEST_F(FollowerTest, ADamagedOneIsPassedOverUntilItIsSavedAgain) {
  OpenStore(3);
  Save(10);
  Save(20);
  files_.Content("/ckpt/step-00000010/model.safetensors").back() ^= 1;
  EXPECT_EQ(Next(follower_), 20);
  EXPECT_EQ(follower_.skipped(), 1);

  CheckpointFollower other(watched_, "/ckpt", {.after = 10});
  files_.Content("/ckpt/step-00000020/model.safetensors").back() ^= 1;
  EXPECT_EQ(Next(other), -1);
  Save(20);  // as step-00000020.1
  EXPECT_EQ(Next(other), 20);
}

TEST_F(FollowerTest, ADiskThatFailsForAMomentIsAskedAgain) {
  OpenStore(3);
  Save(10);
  const int first = files_.reads() + 1;
  ASSERT_EQ(Next(follower_), 10);
  const int reads = files_.reads() - first + 1;
  for (int n = 1; n <= reads; ++n) {
    CheckpointFollower follower(watched_, "/ckpt");
    files_.FailInRead(n);
    const auto next = follower.Next("model-a", CheckpointParts::kModelAndOptimizer);
    EXPECT_FALSE(next.ok() && next->has_value()) << n;
    EXPECT_EQ(Next(follower), 10) << n;
  }
}

TEST_F(FollowerTest, OneThatCannotBeReadDoesNotHoldUpTheOthersAndIsNamedOnce) {
  OpenStore(10);
  for (const std::string what : {"", "/manifest.json", "/model.safetensors"}) {
    const auto step = 10 * static_cast<std::int64_t>(what.size() + 1);
    Save(step);
    watched_.unreadable = "/ckpt/" + api::CheckpointName{step, 0}.ToString() + what;
    CheckpointFollower follower(watched_, "/ckpt", {.after = step - 1});
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Next(follower), -1);
    EXPECT_EQ(Next(follower), -1);
    Save(step + 1);
    EXPECT_EQ(Next(follower), step + 1);
    const std::string log = ::testing::internal::GetCapturedStderr();
    const std::size_t first = log.find("cannot be read");
    ASSERT_NE(first, std::string::npos) << log;
    EXPECT_EQ(log.find("cannot be read", first + 1), std::string::npos) << log;
    EXPECT_THAT(log, HasSubstr("Input/output error"));
  }
}

TEST_F(FollowerTest, OneThatCanBeReadAgainBeforeALaterOneIsThereIsReturned) {
  OpenStore(3);
  Save(10);
  watched_.unreadable = "/ckpt/step-00000010/";
  EXPECT_EQ(Next(follower_), -1);
  watched_.unreadable = "nothing";
  EXPECT_EQ(Next(follower_), 10);
}

TEST_F(FollowerTest, OneThatIsFarBehindTakesTheNewestThatCanBeRead) {
  OpenStore(100);
  const auto most = static_cast<int>(CheckpointFollower::kMostBehind);
  for (int step = 1; step <= most + 2; ++step) Save(step);
  watched_.unreadable = "/ckpt/" + api::CheckpointName{most + 2, 0}.ToString();
  EXPECT_EQ(Next(follower_), most + 1);
}

TEST_F(FollowerTest, OnceTrainingHasEndedTheLastOneComesFirst) {
  OpenStore(100);
  for (const int step : {10, 20, 30}) Save(step);
  CheckpointFollower follower(watched_, "/ckpt", {.last = 40});
  EXPECT_EQ(Next(follower), 10);
  Save(40);
  for (const int step : {40, 20, 30, -1, -1}) EXPECT_EQ(Next(follower), step);
  follower.Finish();
  EXPECT_EQ(follower.skipped(), 0);
  EXPECT_EQ(follower.newest(), 40);
}

TEST_F(FollowerTest, BehindTheLastOneThoseThatAreGoneAreCounted) {
  OpenStore(100);
  for (const int step : {10, 20, 30, 40}) Save(step);
  CheckpointFollower follower(watched_, "/ckpt", {.last = 40});
  EXPECT_EQ(Next(follower), 40);
  ASSERT_TRUE(files_.RemoveRecursively("/ckpt/step-00000030").ok());
  for (const int step : {10, 20, -1}) EXPECT_EQ(Next(follower), step);
  follower.Finish();
  EXPECT_EQ(follower.skipped(), 1);
}

// As of a job that trained longer in the same directory.
TEST_F(FollowerTest, SeveralCheckpointsBeyondTheLastStepAreEachReturnedOnce) {
  OpenStore(100);
  for (const int step : {10, 20, 30}) Save(step);
  CheckpointFollower follower(watched_, "/ckpt", {.last = 15});
  for (const int step : {30, 10, 20, -1, -1}) EXPECT_EQ(Next(follower), step);
}

TEST_F(FollowerTest, ACheckpointOfAnotherModelIsRefused) {
  OpenStore(3);
  Save(10);
  const absl::Status status = follower_.Next("model-b", CheckpointParts::kModel).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("another model"));
}

}  // namespace
}  // namespace lockstep::train
