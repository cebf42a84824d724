#include "trainer/checkpoint/owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/fault_file_system.h"
#include "tests/support/temp_directory.h"
#include "tests/support/watched_file_system.h"
#include "tests/trainer/checkpoint/make_socket.h"
#include "tests/trainer/checkpoint/snapshots.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// An owner of another job than kFirstOwner and kSecondOwner; its pod may have started at any time.
CheckpointOwner OwnerOf(const std::string& job, std::int64_t pod_started = 150) {
  return {.job_uid = job, .pod_started = pod_started};
}

class OwnerTest : public ::testing::Test {
 protected:
  std::unique_ptr<CheckpointStore> Open(FileSystem& files, const CheckpointOwner& owner) {
    auto store = CheckpointStore::Open(files, "/ckpt", 2, owner);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::vector<std::string> Names() { return *files_.ListDirectory("/ckpt"); }

  FaultFileSystem files_;
};

TEST(CheckpointOwnerTest, TheLaterPodSupersedesWhateverItsProcessesDo) {
  EXPECT_TRUE(kSecondOwner.Supersedes(kFirstOwner));
  EXPECT_FALSE(kFirstOwner.Supersedes(kSecondOwner));
  EXPECT_TRUE(kFirstOwner.Supersedes(kFirstOwner));
  CheckpointOwner restarted = kFirstOwner;  // by the old pod's supervisor, behind a partition
  restarted.process_number = 1000;
  EXPECT_TRUE(restarted.Supersedes(kFirstOwner));
  EXPECT_FALSE(restarted.Supersedes(kSecondOwner));
  CheckpointOwner next_attempt = kFirstOwner;
  next_attempt.attempt = 1;
  EXPECT_TRUE(next_attempt.Supersedes(kSecondOwner));
}

TEST(CheckpointOwnerTest, SurvivesJsonAndNamesWhatIsMissing) {
  const auto read = DecodeOwner(EncodeOwner({kFirstOwner}), "p");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->process, kFirstOwner);
  EXPECT_THAT(read->earlier_jobs, IsEmpty());
  const auto later = DecodeOwner(EncodeOwner({kFirstOwner, {"uid-x", "uid-y"}}), "p");
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_THAT(later->earlier_jobs, ElementsAre("uid-x", "uid-y"));
  for (const char* text : {"", "[]", "{}", R"({"jobUid":1})"}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeOwner(text, "p").status())) << text;
  }
}

// As another version of the trainer may have written it.
TEST(CheckpointOwnerTest, OneOfAnotherVersionIsKnownByItsPod) {
  const auto read = DecodeOwner(
      R"({"jobUid": "u", "attempt": 0, "podStarted": 2000, "processStarted": 2001})", "p");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE((CheckpointOwner{"u", 0, 1999, 5}).Supersedes(read->process));
  EXPECT_TRUE((CheckpointOwner{"u", 0, 2001, 0}).Supersedes(read->process));
}

TEST_F(OwnerTest, ALostProcessSavesNothingOnceItsSuccessorIsThere) {
  const auto lost = Open(files_, kFirstOwner);
  ASSERT_TRUE(lost->Save(SnapshotOfStep(10)).ok());
  const auto successor = Open(files_, kSecondOwner);
  EXPECT_EQ((**successor->LoadLatest("model-a")).step, 10);
  const absl::Status refused = lost->Save(SnapshotOfStep(20)).status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/ckpt/owner.json"));
  EXPECT_THAT(Names(), UnorderedElementsAre("owner.json", "step-00000010"));
  EXPECT_TRUE(successor->Save(SnapshotOfStep(20)).ok());
}

TEST_F(OwnerTest, ALostPodsNextProcessDoesNotGetTheFolderBack) {
  Open(files_, kSecondOwner);
  CheckpointOwner restarted = kFirstOwner;
  restarted.process_number = 1000;
  const auto refused = CheckpointStore::Open(files_, "/ckpt", 2, restarted);
  EXPECT_TRUE(absl::IsAborted(refused.status())) << refused.status();
  EXPECT_EQ(DecodeOwner(files_.Content("/ckpt/owner.json"), "")->process, kSecondOwner);
}

TEST_F(OwnerTest, AFolderThatIsLostInTheMiddleOfASaveGetsNoManifest) {
  WatchedFileSystem watched(files_);
  const auto lost = Open(watched, kFirstOwner);
  watched.before_writing = [&](const std::string& path) {
    if (!path.ends_with("manifest.json.tmp")) return;
    const std::string claim = EncodeOwner({kSecondOwner});
    ASSERT_TRUE(files_.WriteFile("/ckpt/owner.json", {std::as_bytes(std::span(claim))}).ok());
  };
  const absl::Status refused = lost->Save(SnapshotOfStep(10)).status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_THAT(Names(), UnorderedElementsAre("owner.json"));
}

TEST_F(OwnerTest, TwoProcessesNeverWriteToOneFolder) {
  WatchedFileSystem watched(files_);
  const auto lost = Open(watched, kFirstOwner);
  std::unique_ptr<CheckpointStore> successor;
  Snapshot newer = SnapshotOfStep(10);
  newer.state["seed"] = 2;
  watched.before_writing = [&](const std::string& path) {
    if (!path.ends_with("optimizer.safetensors")) return;
    successor = Open(files_, kSecondOwner);
    EXPECT_TRUE(successor->Save(newer).ok());
  };
  EXPECT_FALSE(lost->Save(SnapshotOfStep(10)).ok());
  const auto loaded = successor->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(SameSnapshot(**loaded, newer));
}

// That job may still run, and this one may be refused because of what it finds there.
TEST_F(OwnerTest, TheFolderOfAnotherJobIsLeftAloneUntilItIsClaimed) {
  const auto running = Open(files_, kFirstOwner);
  ASSERT_TRUE(running->Save(SnapshotOfStep(10)).ok());
  ASSERT_TRUE(files_.CreateDirectory("/ckpt/step-00000020").ok());  // it is about to save that
  const auto next = Open(files_, OwnerOf("uid-b"));
  EXPECT_TRUE(absl::IsFailedPrecondition(next->LoadLatest("model-b").status()));
  EXPECT_THAT(Names(), UnorderedElementsAre("owner.json", "step-00000010", "step-00000020"));
  EXPECT_TRUE(running->Save(SnapshotOfStep(30)).ok());
  EXPECT_EQ(DecodeOwner(files_.Content("/ckpt/owner.json"), "")->process, kFirstOwner);
}

TEST_F(OwnerTest, AClaimTellsOfACheckpointThatTheOtherJobHasSavedMeanwhile) {
  const auto running = Open(files_, kFirstOwner);
  const auto next = Open(files_, OwnerOf("uid-b"));
  EXPECT_EQ(*next->LoadLatest("model-a"), std::nullopt);
  ASSERT_TRUE(running->Save(SnapshotOfStep(10)).ok());
  EXPECT_EQ(*next->Claim(), true);
  EXPECT_EQ((**next->LoadLatest("model-a")).step, 10);
  EXPECT_EQ(*next->Claim(), false);
  const absl::Status lost = running->Save(SnapshotOfStep(20)).status();
  EXPECT_TRUE(absl::IsAborted(lost)) << lost;
  EXPECT_TRUE(IsTakenByAnotherJob(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("uid-b"));
}

TEST_F(OwnerTest, WithoutANewCheckpointAClaimTellsOfNone) {
  ASSERT_TRUE(Open(files_, kFirstOwner)->Save(SnapshotOfStep(10)).ok());
  ASSERT_TRUE(files_.CreateDirectory("/ckpt/step-00000020").ok());
  ASSERT_TRUE(files_.WriteFile("/ckpt/step-00000030", {}).ok());
  const auto next = Open(files_, OwnerOf("uid-b"));
  EXPECT_EQ((**next->LoadLatest("model-a")).step, 10);
  EXPECT_EQ(*next->Claim(), false);
  EXPECT_THAT(Names(), UnorderedElementsAre("owner.json", "step-00000010", "step-00000030"));
}

TEST_F(OwnerTest, ACheckpointThatTheOwnerRemovesWhileItIsReadIsNotDamaged) {
  const auto running = *CheckpointStore::Open(files_, "/ckpt", 1, kFirstOwner);
  ASSERT_TRUE(running->Save(SnapshotOfStep(10)).ok());
  WatchedFileSystem watched(files_);
  const auto next = Open(watched, OwnerOf("uid-b"));
  bool saved = false;
  watched.before_reading = [&](const std::string& path) {
    if (!path.ends_with("optimizer.safetensors") || std::exchange(saved, true)) return;
    ASSERT_TRUE(running->Save(SnapshotOfStep(20)).ok());
  };
  const auto loaded = next->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(loaded->has_value());
  EXPECT_EQ((*loaded)->step, 20);
}

TEST_F(OwnerTest, CheckpointsThatAreRemovedAgainAndAgainAreATransientError) {
  const auto running = *CheckpointStore::Open(files_, "/ckpt", 1, kFirstOwner);
  std::int64_t step = 10;
  ASSERT_TRUE(running->Save(SnapshotOfStep(step)).ok());
  WatchedFileSystem watched(files_);
  const auto next = Open(watched, OwnerOf("uid-b"));
  watched.before_reading = [&](const std::string& path) {
    if (!path.ends_with("optimizer.safetensors")) return;
    ASSERT_TRUE(running->Save(SnapshotOfStep(step += 10)).ok());
  };
  const absl::Status failed = next->LoadLatest("model-a").status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_GT(step, 20) << "it has looked again";
}

// Two jobs that run at once would else take the folder from each other with each new pod.
TEST_F(OwnerTest, AJobThatHasLostTheFolderToAnotherNeverGetsItBack) {
  Open(files_, OwnerOf("uid-b", 1));
  for (const char* job : {"uid-c", "uid-d"}) {
    ASSERT_TRUE(Open(files_, OwnerOf(job, 2))->Claim().ok());
    Open(files_, OwnerOf(job, 3));  // its next pod does not forget it
  }
  for (const char* job : {"uid-b", "uid-c"}) {
    const absl::Status refused =
        CheckpointStore::Open(files_, "/ckpt", 2, OwnerOf(job, 1000)).status();
    EXPECT_TRUE(absl::IsAborted(refused)) << refused;
    EXPECT_TRUE(IsTakenByAnotherJob(refused)) << refused;
  }
  EXPECT_EQ(DecodeOwner(files_.Content("/ckpt/owner.json"), "")->process, OwnerOf("uid-d", 3));
  const absl::Status lost = CheckpointStore::Open(files_, "/ckpt", 2, OwnerOf("uid-d", 2)).status();
  EXPECT_TRUE(absl::IsAborted(lost)) << lost;
  EXPECT_FALSE(IsTakenByAnotherJob(lost)) << "its own job has the folder";
}

// Else the job that came later would fail for good, and the earlier one go on.
TEST_F(OwnerTest, AFolderThatAnEarlierVersionTakesBackIsNotLostForGood) {
  const auto earlier = Open(files_, OwnerOf("uid-a"));
  const auto later = Open(files_, OwnerOf("uid-b"));
  ASSERT_TRUE(later->Claim().ok());
  files_.Content("/ckpt/owner.json") = EncodeOwner({.process = OwnerOf("uid-a", 1000)});
  const absl::Status lost = later->Save(SnapshotOfStep(10)).status();
  EXPECT_TRUE(absl::IsAborted(lost)) << lost;
  EXPECT_FALSE(IsTakenByAnotherJob(lost)) << lost;
  const auto next = Open(files_, OwnerOf("uid-b", 2000));
  EXPECT_TRUE(next->Claim().ok());
  EXPECT_TRUE(next->Save(SnapshotOfStep(10)).ok());
}

// It would else begin the other's run again from a checkpoint that is not the newest.
TEST_F(OwnerTest, AProcessThatCouldNotClaimTheFolderDoesNotTakeItFromOneThatIsFurther) {
  const auto running = Open(files_, OwnerOf("uid-a"));
  ASSERT_TRUE(running->Save(SnapshotOfStep(10)).ok());
  const auto later = Open(files_, OwnerOf("uid-b"));
  const auto loaded = later->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
  files_.FailInRead(1);  // of the owner
  EXPECT_TRUE(later->Claim().ok());
  EXPECT_FALSE(later->IsClaimed());
  ASSERT_TRUE(running->Save(SnapshotOfStep(30)).ok());
  const absl::Status refused = later->Save(SnapshotOfStep(20)).status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_FALSE(IsTakenByAnotherJob(refused)) << "its next process goes on from step 30";
  EXPECT_TRUE(absl::IsAborted(later->Save(SnapshotOfStep(20)).status())) << "a second time";
  EXPECT_FALSE(files_.Exists("/ckpt/step-00000020"));
  EXPECT_TRUE(running->Save(SnapshotOfStep(40)).ok()) << "the folder has not been taken from it";
}

TEST_F(OwnerTest, AFolderThatComesBackEmptyHasNoCheckpointOfAnothers) {
  ASSERT_TRUE(Open(files_, OwnerOf("uid-a"))->Save(SnapshotOfStep(10)).ok());
  const auto store = Open(files_, OwnerOf("uid-a", 2000));
  ASSERT_TRUE(store->LoadLatest("model-a").ok());
  ASSERT_TRUE(store->Claim().ok());
  ASSERT_TRUE(files_.RemoveRecursively("/ckpt/owner.json").ok());
  ASSERT_TRUE(files_.RemoveRecursively("/ckpt/step-00000010").ok());
  files_.LimitBytes(0);
  EXPECT_FALSE(store->Save(SnapshotOfStep(20)).ok());
  files_.LimitBytes(std::numeric_limits<std::size_t>::max());
  const auto saved = store->Save(SnapshotOfStep(30));
  EXPECT_TRUE(saved.ok()) << saved.status();
}

// As a mount does whose server is gone.
TEST_F(OwnerTest, AFolderThatWasAwayForAWhileIsClaimedAgainByWhoHasSavedThere) {
  const auto store = Open(files_, OwnerOf("uid-a"));
  ASSERT_TRUE(store->LoadLatest("model-a").ok());
  ASSERT_TRUE(store->Claim().ok());
  ASSERT_TRUE(store->Save(SnapshotOfStep(10)).ok());
  ASSERT_TRUE(files_.RemoveRecursively("/ckpt/owner.json").ok());
  files_.LimitBytes(0);
  EXPECT_FALSE(store->Save(SnapshotOfStep(20)).ok());
  EXPECT_FALSE(store->IsClaimed());
  files_.LimitBytes(std::numeric_limits<std::size_t>::max());
  const auto saved = store->Save(SnapshotOfStep(30));
  EXPECT_TRUE(saved.ok()) << saved.status();
}

TEST_F(OwnerTest, AClaimThatFailedIsMadeUpForByTheFirstSave) {
  const auto running = Open(files_, OwnerOf("uid-a"));
  ASSERT_TRUE(running->Save(SnapshotOfStep(10)).ok());
  const auto later = Open(files_, OwnerOf("uid-b"));
  ASSERT_TRUE(later->LoadLatest("model-a").ok());
  files_.FailInRead(1);
  EXPECT_TRUE(later->Claim().ok());
  EXPECT_TRUE(later->Save(SnapshotOfStep(20)).ok());
  EXPECT_TRUE(later->IsClaimed());
}

TEST_F(OwnerTest, TheOldestOfVeryManyEarlierJobsAreForgotten) {
  const auto most = FolderOwner::kMostEarlierJobs;
  for (std::size_t i = 0; i < most + 3; ++i) {
    ASSERT_TRUE(Open(files_, OwnerOf(std::to_string(i)))->Claim().ok());
  }
  const auto owner = DecodeOwner(files_.Content("/ckpt/owner.json"), "");
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_EQ(owner->earlier_jobs.size(), most);
  EXPECT_EQ(owner->earlier_jobs.front(), "2");
  EXPECT_EQ(owner->earlier_jobs.back(), std::to_string(most + 1));
}

TEST(FolderClaimTest, AnOwnerThatCannotBeReadIsNone) {
  const std::vector<std::function<void(const std::string&)>> kinds = {
      &MakeSocket, [](const std::string& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); },
      [](const std::string& path) { WriteTextFile(path, R"({"jobUid": 7})"); },
      [](const std::string& path) {
        WriteTextFile(path, EncodeOwner({{.job_uid = "later", .pod_started = 1'000'000}}));
        std::filesystem::resize_file(path, std::uintmax_t{60} << 30U);  // sparse
      }};
  for (const auto& make : kinds) {
    const TempDirectory folder;
    make(folder.At("owner.json"));
    const auto store = CheckpointStore::Open(RealFileSystem(), folder.path(), 2, kFirstOwner);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto saved = (*store)->Save(SnapshotOfStep(10));
    EXPECT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(DecodeOwner(ReadTextFile(folder.At("owner.json")), "")->process, kFirstOwner);
  }
}

TEST(FolderClaimTest, AFolderInThePlaceOfTheOwnersFileIsAnError) {
  for (const char* name : {"owner.json", "owner.json.tmp"}) {
    const TempDirectory folder;
    const std::string path = folder.At(name);
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    const absl::Status refused =
        CheckpointStore::Open(RealFileSystem(), folder.path(), 2, kFirstOwner).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(path + ": "));
  }
}

TEST_F(OwnerTest, AFolderWhoseFilesCannotBeRenamedIsRefusedAtOnce) {
  files_.RefuseRenames();
  for (const char* found : {"rename files", "replace files"}) {  // the second finds a draft
    const absl::Status refused = CheckpointStore::Open(files_, "/ckpt", 2, kFirstOwner).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(std::string("/ckpt: found a file system that cannot ") + found));
  }
}

TEST_F(OwnerTest, AFullDiskDelaysTheClaimAndNotTheReading) {
  ASSERT_TRUE(Open(files_, kFirstOwner)->Save(SnapshotOfStep(10)).ok());
  files_.FillDiskInOperation(2,
                             /*stays_full=*/true);  // the first writes nothing: the folder is there
  const auto store = Open(files_, kSecondOwner);
  EXPECT_EQ((**store->LoadLatest("model-a")).step, 10);
  EXPECT_TRUE(absl::IsResourceExhausted(store->Save(SnapshotOfStep(20)).status()));
  files_.Reboot(FaultFileSystem::kKeepAll);  // and there is room
  EXPECT_TRUE(store->Save(SnapshotOfStep(20)).ok());
  EXPECT_EQ(DecodeOwner(files_.Content("/ckpt/owner.json"), "")->process, kSecondOwner);
}

TEST_F(OwnerTest, WhatAnUnfinishedSaveHasLeftMakesRoomForTheClaim) {
  Open(files_, kFirstOwner);
  const auto other_job = Open(files_, OwnerOf("uid-b"));
  const auto fill_disk = [&] {
    const std::vector<std::byte> tensors(100'000);
    files_.LimitBytes(tensors.size());
    ASSERT_TRUE(files_.CreateDirectory("/ckpt/step-00000020").ok());
    EXPECT_TRUE(absl::IsResourceExhausted(
        files_.WriteFile("/ckpt/step-00000020/model.safetensors", {tensors})));
  };
  fill_disk();
  const auto successor = Open(files_, kSecondOwner);
  EXPECT_EQ(DecodeOwner(files_.Content("/ckpt/owner.json"), "")->process, kSecondOwner);
  EXPECT_TRUE(successor->Save(SnapshotOfStep(10)).ok());
  fill_disk();
  EXPECT_TRUE(other_job->Claim().ok());
  EXPECT_EQ(DecodeOwner(files_.Content("/ckpt/owner.json"), "")->process, OwnerOf("uid-b"));
  EXPECT_TRUE(other_job->Save(SnapshotOfStep(20)).ok());
}

TEST_F(OwnerTest, AProcessThatMayNotClaimTheFolderRemovesNothingFromAFullDisk) {
  const auto owner = Open(files_, kSecondOwner);
  ASSERT_TRUE(files_.CreateDirectory("/ckpt/step-00000020").ok());
  files_.LimitBytes(0);
  EXPECT_TRUE(absl::IsAborted(CheckpointStore::Open(files_, "/ckpt", 2, kFirstOwner).status()));
  const auto other_job = Open(files_, OwnerOf("uid-b"));
  EXPECT_THAT(Names(), UnorderedElementsAre("owner.json", "step-00000020"));
}

}  // namespace
}  // namespace lockstep::train
