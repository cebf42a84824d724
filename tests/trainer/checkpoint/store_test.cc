#include "trainer/checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/fault_file_system.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/checkpoint/snapshots.h"
#include "trainer/checkpoint/checkpoint_folder.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class StoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<CheckpointStore> Open(int keep = 3) {
    auto store = CheckpointStore::Open(files_, "/ckpt", keep, kFirstOwner);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  void Save(CheckpointStore& store, std::int64_t step) {
    const auto folder = store.Save(SnapshotOfStep(step));
    ASSERT_TRUE(folder.ok()) << folder.status();
  }
  void ExpectLatest(std::int64_t step) {
    const auto loaded = Open()->LoadLatest("model-a");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_TRUE(loaded->has_value());
    EXPECT_TRUE(SameSnapshot(**loaded, SnapshotOfStep(step))) << (*loaded)->step;
  }
  // The names of the checkpoints, without the owner's file.
  std::vector<std::string> Names() {
    std::vector<std::string> names = *files_.ListDirectory("/ckpt");
    std::erase(names, "owner.json");
    return names;
  }

  FaultFileSystem files_;
};

TEST_F(StoreTest, EmptyFolderHasNone) {
  const auto loaded = Open()->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok());
  EXPECT_FALSE(loaded->has_value());
}

// As for any checkpoint that is damaged, an older one may be whole.
TEST_F(StoreTest, AFileWithTheNameOfACheckpointIsPassedOver) {
  const TempDirectory folder;
  const auto store = *CheckpointStore::Open(RealFileSystem(), folder.path(), 3, kFirstOwner);
  Save(*store, 200);
  WriteTextFile(folder.At("step-00000400"), "no folder");
  const auto loaded = store->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(loaded->has_value());
  EXPECT_EQ((*loaded)->step, 200);
}

TEST_F(StoreTest, LoadsWhatWasSavedLast) {
  const auto store = Open();
  EXPECT_EQ(*store->Save(SnapshotOfStep(200)), "/ckpt/step-00000200");
  ExpectLatest(200);
  Save(*store, 400);
  ExpectLatest(400);
  Save(*store, 123456789);  // longer than its zeros
  ExpectLatest(123456789);
}

// Who takes the model of a checkpoint gets the best one. An earlier version would train on from it.
TEST_F(StoreTest, TheModelOfTheBestEvaluationStandsBesideThatOfTheStep) {
  Snapshot snapshot = SnapshotOfStep(400);
  snapshot.best = SnapshotOfStep(200).model;
  ASSERT_NE(snapshot.best, snapshot.model);
  const auto store = Open();
  ASSERT_TRUE(store->Save(snapshot).ok());
  const auto loaded = store->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok() && *loaded) << loaded.status();
  EXPECT_TRUE(SameSnapshot(**loaded, snapshot));
  const auto taken =
      LoadSnapshot(files_, "/ckpt/step-00000400", "model-a", CheckpointParts::kModel);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->model, snapshot.best);
  EXPECT_TRUE(taken->best.empty());
  const auto version = [&](const std::string& folder) {
    const std::string text = *files_.ReadFile(folder + "/manifest.json", kMostJsonBytes);
    return nlohmann::json::parse(text)["formatVersion"];
  };
  EXPECT_EQ(version("/ckpt/step-00000400"), 2);
  Save(*store, 600);
  EXPECT_EQ(version("/ckpt/step-00000600"), 1);
}

TEST_F(StoreTest, ADamagedModelOfTheStepIsFound) {
  const auto store = Open();
  Save(*store, 200);
  Snapshot snapshot = SnapshotOfStep(400);
  snapshot.best = SnapshotOfStep(200).model;
  ASSERT_TRUE(store->Save(snapshot).ok());
  files_.Content("/ckpt/step-00000400/training.safetensors").back() ^= 1;
  ExpectLatest(200);
}

TEST_F(StoreTest, KeepsTheNewest) {
  const auto store = Open(2);
  for (const int step : {10, 20, 30, 40}) Save(*store, step);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000030", "step-00000040"));
}

TEST_F(StoreTest, FilesOfOthersAreLeftAlone) {
  ASSERT_TRUE(files_.CreateDirectories("/ckpt/step-notes").ok());
  ASSERT_TRUE(files_.CreateDirectories("/ckpt/step-5").ok());  // not as this program writes it
  ASSERT_TRUE(files_.WriteFile("/ckpt/README", {}).ok());
  const auto store = Open(1);
  Save(*store, 10);
  Save(*store, 20);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-notes", "step-5", "README", "step-00000020"));
  ExpectLatest(20);
}

TEST_F(StoreTest, LeftoversOfACrashedSaveAreCleaned) {
  ASSERT_TRUE(files_.CreateDirectories("/ckpt/step-00000300").ok());
  ASSERT_TRUE(files_.WriteFile("/ckpt/step-00000300/model.safetensors", {}).ok());
  Open();
  EXPECT_TRUE(Names().empty());
}

TEST_F(StoreTest, StepSavedAgainReplacesTheFirst) {
  const auto store = Open();
  Save(*store, 10);
  Snapshot again = SnapshotOfStep(10);
  again.state["seed"] = 2;
  EXPECT_EQ(*store->Save(again), "/ckpt/step-00000010.1");
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010.1"));
  EXPECT_EQ((**Open()->LoadLatest("model-a")).state["seed"], 2);
}

TEST_F(StoreTest, DamagedCheckpointIsPassedOverThenReplaced) {
  const auto first = Open();
  Save(*first, 10);
  Save(*first, 20);
  files_.Content("/ckpt/step-00000020/optimizer.safetensors").pop_back();
  ExpectLatest(10);
  const auto store = Open(1);
  ASSERT_TRUE(store->LoadLatest("model-a").ok());
  Save(*store, 15);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000015"));
  ExpectLatest(15);
}

TEST_F(StoreTest, EveryKindOfDamageIsNamed) {
  const auto damage = [&](const std::string& name,
                          const std::function<void(std::string&)>& change) {
    const std::string path = "/ckpt/step-00000010/" + name;
    const std::string before = files_.Content(path);
    change(files_.Content(path));
    const absl::Status status = Open()->LoadLatest("model-a").status();
    files_.Content(path) = before;
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    return std::string(status.message());
  };
  Save(*Open(), 10);
  EXPECT_THAT(damage("model.safetensors", [](std::string& bytes) { bytes.pop_back(); }),
              AllOf(HasSubstr("/ckpt: no checkpoint can be read"), HasSubstr("bytes, expected")));
  EXPECT_THAT(damage("model.safetensors", [](std::string& bytes) { bytes.push_back(0); }),
              HasSubstr("bytes, expected at most"));
  EXPECT_THAT(damage("model.safetensors", [](std::string& bytes) { bytes.back() ^= 1; }),
              HasSubstr("CRC-32C is"));
  EXPECT_THAT(damage("manifest.json", [](std::string& bytes) { bytes.clear(); }),
              HasSubstr("0 bytes that are not a JSON object"));
  EXPECT_THAT(damage("manifest.json", [](std::string& bytes) { bytes.resize(kMostJsonBytes + 1); }),
              HasSubstr("found 16777217 bytes, expected at most 16777216"));
  EXPECT_THAT(damage("manifest.json", [](std::string& bytes) { bytes.resize(bytes.size() / 2); }),
              HasSubstr("not a JSON object"));
  ExpectLatest(10);
  ASSERT_TRUE(files_.RemoveRecursively("/ckpt/step-00000010/model.safetensors").ok());
  const absl::Status status = Open()->LoadLatest("model-a").status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors: no such file"));
}

TEST_F(StoreTest, CheckpointOfAnotherModelIsRefused) {
  Save(*Open(), 10);
  const absl::Status status = Open()->LoadLatest("model-b").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/ckpt/step-00000010/manifest.json"), HasSubstr("another model"),
                    HasSubstr("model-a"), HasSubstr("model-b")));
}

TEST_F(StoreTest, TheNewestIsKnownWithoutLoadingIt) {
  const auto store = Open();
  EXPECT_EQ(*store->Newest(), std::nullopt);
  Save(*store, 10);
  Save(*store, 20);
  files_.Content("/ckpt/step-00000020/model.safetensors").clear();  // which nobody reads here
  const auto newest = *store->Newest();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->step, 20);
  EXPECT_EQ(newest->saved, SnapshotOfStep(20).saved);
  files_.Content("/ckpt/step-00000020/manifest.json").clear();
  EXPECT_EQ((*store->Newest())->step, 10);
}

TEST_F(StoreTest, CheckpointOfANewerFormatIsRefused) {
  Save(*Open(), 10);
  std::string& text = files_.Content("/ckpt/step-00000010/manifest.json");
  text.replace(text.find("\"formatVersion\": 1"), 18, "\"formatVersion\": 9");
  EXPECT_TRUE(absl::IsFailedPrecondition(Open()->LoadLatest("model-a").status()));
}

TEST_F(StoreTest, SnapshotThatCannotBeWrittenLeavesNothing) {
  Snapshot snapshot = SnapshotOfStep(10);
  snapshot.model[0].data.pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(Open()->Save(snapshot).status()));
  EXPECT_TRUE(Names().empty());
}

// The same on a real disk.
TEST(RealStoreTest, SavesKeepsAndLoads) {
  const TempDirectory folder;
  const std::string directory = folder.At("a/b");
  auto store = *CheckpointStore::Open(RealFileSystem(), directory, 2, kFirstOwner);
  for (const int step : {1, 2, 3}) ASSERT_TRUE(store->Save(SnapshotOfStep(step)).ok());
  EXPECT_FALSE(std::filesystem::exists(directory + "/step-00000001"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/step-00000002"));
  store = *CheckpointStore::Open(RealFileSystem(), directory, 2, kFirstOwner);
  const auto loaded = store->LoadLatest("model-a");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(SameSnapshot(**loaded, SnapshotOfStep(3)));
}

}  // namespace
}  // namespace lockstep::train
