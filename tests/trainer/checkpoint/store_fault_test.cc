// What a job finds after power was lost, or the disk was full, at every single operation.
#include <gtest/gtest.h>

#include "tests/support/fault_file_system.h"
#include "tests/trainer/checkpoint/snapshots.h"
#include "trainer/checkpoint/store.h"

namespace lockstep::train {
namespace {

constexpr int kSaves = 4;

struct Outcome {
  int saved = 0;  // saves that returned Ok before the fault
  bool faulted = false;
};

// Opens the store and saves steps 10, 20, … until something fails.
Outcome SaveUntilFault(FileSystem& files, int keep) {
  Outcome outcome;
  auto store = CheckpointStore::Open(files, "/jobs/a/ckpt", keep, kFirstOwner);
  if (!store.ok()) return {0, true};
  for (int save = 1; save <= kSaves; ++save) {
    if (!(*store)->Save(SnapshotOfStep(save * 10)).ok()) return {outcome.saved, true};
    ++outcome.saved;
  }
  return outcome;
}

// The newest checkpoint is the last one that Save reported, or the next one, whole; then all goes
// on.
void ExpectGoodAfterFault(FaultFileSystem& files, int keep, const Outcome& outcome) {
  auto store = CheckpointStore::Open(files, "/jobs/a/ckpt", keep, kFirstOwner);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto loaded = (*store)->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  if (!loaded->has_value()) {
    EXPECT_EQ(outcome.saved, 0) << "a saved checkpoint was lost";
  } else {
    const auto step = (*loaded)->step;
    EXPECT_TRUE(step == outcome.saved * 10 || step == outcome.saved * 10 + 10) << step;
    EXPECT_TRUE(SameSnapshot(**loaded, SnapshotOfStep(step)));
  }
  ASSERT_TRUE((*store)->Save(SnapshotOfStep(1000)).ok());
  EXPECT_EQ((**(*store)->LoadLatest("model-a")).step, 1000);
  std::vector<std::string> names = *files.ListDirectory("/jobs/a/ckpt");
  std::erase_if(names, [](const std::string& name) { return name.starts_with("owner.json"); });
  EXPECT_LE(names.size(), static_cast<std::size_t>(keep));
}

int CountOperations(int keep) {
  FaultFileSystem files;
  EXPECT_FALSE(SaveUntilFault(files, keep).faulted);
  return files.operations();
}

TEST(StoreFaultTest, PowerLossAtAnyMomentLosesNothingSaved) {
  for (const int keep : {1, 2}) {
    const int operations = CountOperations(keep);
    ASSERT_GT(operations, kSaves * 6);
    for (int n = 1; n <= operations; ++n) {
      for (int trial = 0; trial < 18; ++trial) {
        const std::uint64_t seed = trial == 16   ? FaultFileSystem::kLoseAll
                                   : trial == 17 ? FaultFileSystem::kKeepAll
                                                 : static_cast<std::uint64_t>(trial);
        SCOPED_TRACE(::testing::Message()
                     << "keep " << keep << " operation " << n << " seed " << seed);
        FaultFileSystem files;
        files.CrashInOperation(n);
        const Outcome outcome = SaveUntilFault(files, keep);
        files.Reboot(seed);
        ExpectGoodAfterFault(files, keep, outcome);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(StoreFaultTest, FullDiskLeavesEarlierCheckpointsAndNothingHalfWritten) {
  for (const bool stays_full : {false, true}) {
    for (int n = 1; n <= CountOperations(2); ++n) {
      SCOPED_TRACE(::testing::Message() << "operation " << n << " stays full " << stays_full);
      FaultFileSystem files;
      files.FillDiskInOperation(n, stays_full);
      auto store = CheckpointStore::Open(files, "/jobs/a/ckpt", 2, kFirstOwner);
      if (!store.ok()) {
        EXPECT_TRUE(absl::IsResourceExhausted(store.status()));
        continue;
      }
      int saved = 0;
      absl::Status status;
      while (saved < kSaves && status.ok()) {
        status = (*store)->Save(SnapshotOfStep((saved + 1) * 10)).status();
        if (status.ok()) ++saved;
      }
      if (!status.ok()) {
        EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
        EXPECT_FALSE(files.Exists("/jobs/a/ckpt/" + std::string("step-000000") +
                                  std::to_string((saved + 1) * 10)));
      }
      files.Reboot(FaultFileSystem::kLoseAll);
      ExpectGoodAfterFault(files, 2, {saved, !status.ok()});
    }
  }
}

// A disk that fails to read is no reason to begin again, to stop for good or to remove anything.
TEST(StoreFaultTest, AReadErrorAtAnyMomentFallsBackOrMayBeTriedAgain) {
  FaultFileSystem probe;
  ASSERT_FALSE(SaveUntilFault(probe, 3).faulted);
  const int before = probe.reads();
  ASSERT_TRUE(
      (*CheckpointStore::Open(probe, "/jobs/a/ckpt", 3, kFirstOwner))->LoadLatest("model-a").ok());
  const int reads = probe.reads() - before;
  ASSERT_GE(reads, 6);
  int fell_back = 0;
  for (int n = 1; n <= reads; ++n) {
    SCOPED_TRACE(::testing::Message() << "read " << n);
    FaultFileSystem files;
    ASSERT_FALSE(SaveUntilFault(files, 3).faulted);
    files.FailInRead(n);
    auto store = CheckpointStore::Open(files, "/jobs/a/ckpt", 3, kFirstOwner);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto loaded = (*store)->LoadLatest("model-a");
    if (loaded.ok()) {
      ASSERT_TRUE(loaded->has_value()) << "a checkpoint that cannot be read is not none";
      EXPECT_GE((*loaded)->step, 30);
      if ((*loaded)->step == 30) ++fell_back;
    } else {
      EXPECT_TRUE(absl::IsUnavailable(loaded.status())) << loaded.status();
    }
    EXPECT_EQ((**(*store)->LoadLatest("model-a")).step, 40);
    ASSERT_TRUE((*store)->Save(SnapshotOfStep(35)).ok());
    EXPECT_EQ((**(*store)->LoadLatest("model-a")).step, 40) << "what could not be read was removed";
  }
  EXPECT_GE(fell_back, 4);  // listing, manifest and both tensor files of the newest
}

TEST(StoreFaultTest, IfNothingCanBeReadTheErrorSaysThatItMayPass) {
  FaultFileSystem files;
  auto store = *CheckpointStore::Open(files, "/jobs/a/ckpt", 1, kFirstOwner);
  ASSERT_TRUE(store->Save(SnapshotOfStep(10)).ok());
  files.FailInRead(3);  // the folder, the checkpoint, its manifest
  EXPECT_TRUE(absl::IsUnavailable(store->LoadLatest("model-a").status()));
}

// It may be the only one that survives a crash: here, there is no other.
TEST(StoreFaultTest, ACompleteCheckpointStaysThoughItsLastSyncHasFailed) {
  std::vector<bool> stays;  // by the sync that fails
  for (int n = 1;; ++n) {
    SCOPED_TRACE(::testing::Message() << "sync " << n);
    FaultFileSystem files;
    const auto store = *CheckpointStore::Open(files, "/ckpt", 1, kFirstOwner);
    files.FailInSync(n);
    const absl::Status saved = store->Save(SnapshotOfStep(10)).status();
    if (saved.ok()) break;  // it has fewer syncs
    EXPECT_TRUE(absl::IsUnavailable(saved)) << saved;
    const auto loaded = store->LoadLatest("model-a");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    stays.push_back(loaded->has_value());
    EXPECT_EQ(files.Exists("/ckpt/step-00000010"), stays.back());
    ASSERT_TRUE(store->Save(SnapshotOfStep(20)).ok());
    EXPECT_FALSE(files.Exists("/ckpt/step-00000010"));
  }
  EXPECT_EQ(stays, (std::vector{false, false, true}));
}

TEST(StoreFaultTest, NothingIsRemovedToMakeRoom) {
  FaultFileSystem files;
  auto store = *CheckpointStore::Open(files, "/ckpt", 1, kFirstOwner);
  ASSERT_TRUE(store->Save(SnapshotOfStep(10)).ok());
  files.FillDiskInOperation(1, /*stays_full=*/true);
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_TRUE(absl::IsResourceExhausted(store->Save(SnapshotOfStep(20)).status()));
  }
  EXPECT_EQ((**store->LoadLatest("model-a")).step, 10);
}

}  // namespace
}  // namespace lockstep::train
