#include "trainer/checkpoint/async_saver.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "tests/trainer/checkpoint/snapshots.h"

namespace lockstep::train {
namespace {

// Saves when the test says so, with the outcome it says.
class GatedStore final : public CheckpointStore {
 public:
  absl::StatusOr<bool> Claim() override { return false; }
  bool IsClaimed() const override { return true; }
  absl::StatusOr<std::string> Save(const Snapshot& snapshot) override {
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return permits_ > 0; });
    --permits_;
    if (!next_status_.ok()) return next_status_;
    saved_.push_back(snapshot.step);
    return "folder-" + std::to_string(snapshot.step);
  }
  absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string&) override {
    return std::optional<Snapshot>();
  }
  absl::StatusOr<std::optional<CheckpointAge>> Newest() override { return std::nullopt; }

  void Permit(int saves, absl::Status status = absl::OkStatus()) {
    const std::lock_guard lock(mutex_);
    permits_ += saves;
    next_status_ = std::move(status);
    changed_.notify_all();
  }
  void WaitUntilBegun(int saves) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= saves; });
  }
  std::vector<std::int64_t> saved() {
    const std::lock_guard lock(mutex_);
    return saved_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0, permits_ = 0;
  absl::Status next_status_;
  std::vector<std::int64_t> saved_;
};

TEST(AsyncSaverTest, SaveReturnsBeforeTheCheckpointIsWritten) {
  GatedStore store;
  AsyncSaver saver(store);
  saver.Save(SnapshotOfStep(10));
  store.WaitUntilBegun(1);
  EXPECT_EQ(saver.outcome().last_saved_step, -1);
  store.Permit(1);
  EXPECT_TRUE(saver.Wait().ok());
  EXPECT_EQ(saver.outcome().last_saved_step, 10);
  EXPECT_EQ(saver.outcome().last_saved_folder, "folder-10");
}

TEST(AsyncSaverTest, SecondSaveWaitsForTheFirst) {
  GatedStore store;
  AsyncSaver saver(store);
  saver.Save(SnapshotOfStep(10));
  store.WaitUntilBegun(1);
  std::promise<void> returned;
  std::thread trainer([&] {
    saver.Save(SnapshotOfStep(20));
    returned.set_value();
  });
  EXPECT_EQ(returned.get_future().wait_for(std::chrono::milliseconds(20)),
            std::future_status::timeout);
  store.Permit(2);
  trainer.join();
  EXPECT_TRUE(saver.Wait().ok());
  EXPECT_EQ(store.saved(), (std::vector<std::int64_t>{10, 20}));
}

TEST(AsyncSaverTest, FailureIsReportedAndTheNextSaveStillRuns) {
  GatedStore store;
  AsyncSaver saver(store);
  store.Permit(1);
  saver.Save(SnapshotOfStep(10));
  ASSERT_TRUE(saver.Wait().ok());
  store.Permit(1, absl::ResourceExhaustedError("disk full"));
  ::testing::internal::CaptureStderr();
  saver.Save(SnapshotOfStep(20));
  EXPECT_TRUE(absl::IsResourceExhausted(saver.Wait()));
  const auto line = nlohmann::json::parse(::testing::internal::GetCapturedStderr());
  EXPECT_EQ(line["message"], "a checkpoint could not be saved");
  EXPECT_EQ(line["step"], 20);
  EXPECT_EQ(line["reason"], "disk full");
  EXPECT_EQ(line["lastSavedStep"], 10);
  EXPECT_EQ(saver.outcome().last_saved_step, 10);
  EXPECT_EQ(saver.outcome().failures, 1);
  store.Permit(1);
  saver.Save(SnapshotOfStep(30));
  EXPECT_TRUE(saver.Wait().ok());
  EXPECT_EQ(saver.outcome().last_saved_step, 30);
  EXPECT_EQ(saver.outcome().durations.count(), 2) << "of those that were saved";
}

TEST(AsyncSaverTest, KeepsWhatItCouldNotSaveIfItIsTo) {
  GatedStore store;
  AsyncSaver saver(store);
  const auto save = [&](std::int64_t step, bool keeps, const absl::Status& status) {
    store.Permit(1, status);
    saver.Save(SnapshotOfStep(step), keeps);
    EXPECT_EQ(saver.Wait(), status);
  };
  const absl::Status full = absl::ResourceExhaustedError("disk full");
  save(10, /*keeps=*/false, full);
  EXPECT_EQ(saver.UnsavedStep(), -1);
  EXPECT_EQ(saver.SaveAgain(), -1);
  save(20, /*keeps=*/true, absl::OkStatus());
  EXPECT_EQ(saver.UnsavedStep(), -1);
  save(30, /*keeps=*/true, full);
  EXPECT_EQ(saver.UnsavedStep(), 30);
  store.Permit(1, full);
  EXPECT_EQ(saver.SaveAgain(), 30);
  EXPECT_EQ(saver.Wait(), full);
  EXPECT_EQ(saver.UnsavedStep(), 30) << "still";
  store.Permit(1);
  EXPECT_EQ(saver.SaveAgain(), 30);
  EXPECT_TRUE(saver.Wait().ok());
  EXPECT_EQ(saver.outcome().last_saved_step, 30);
  EXPECT_EQ(saver.UnsavedStep(), -1);
  save(40, /*keeps=*/true, full);
  save(50, /*keeps=*/false, full);
  EXPECT_EQ(saver.UnsavedStep(), -1) << "one at most";
  save(60, /*keeps=*/true, full);
  EXPECT_EQ(saver.Unsaved()->step, 60);
  EXPECT_EQ(saver.Unsaved()->step, 60) << "until it is dropped";
  saver.DropUnsaved();
  EXPECT_EQ(saver.Unsaved(), nullptr);
}

TEST(AsyncSaverTest, ReportsHowMuchIsInACheckpoint) {
  GatedStore store;
  AsyncSaver saver(store);
  Snapshot snapshot = SnapshotOfStep(10);
  snapshot.model = {{.name = "a", .shape = {6}, .data = std::vector<float>(6)}};
  snapshot.optimizer = {{.name = "a", .shape = {4}, .data = std::vector<float>(4)}};
  snapshot.best = {{.name = "a", .shape = {6}, .data = std::vector<float>(6)}};
  store.Permit(1);
  saver.Save(std::move(snapshot));
  ASSERT_TRUE(saver.Wait().ok());
  EXPECT_EQ(saver.outcome().last_saved_bytes, 64);
}

TEST(AsyncSaverTest, DestructorFinishesTheSaveUnderWay) {
  GatedStore store;
  {
    AsyncSaver saver(store);
    saver.Save(SnapshotOfStep(10));
    store.Permit(1);
  }
  EXPECT_EQ(store.saved(), (std::vector<std::int64_t>{10}));
}

TEST(AsyncSaverTest, WaitWithoutASaveReturnsOk) {
  GatedStore store;
  AsyncSaver saver(store);
  EXPECT_TRUE(saver.Wait().ok());
}

}  // namespace
}  // namespace lockstep::train
