#include "trainer/export/export_model.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <utility>

#include "tests/support/fault_file_system.h"
#include "tests/support/temp_directory.h"
#include "tests/support/watched_file_system.h"
#include "tests/trainer/export/exported.h"
#include "trainer/checkpoint/store.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ExportModelTest : public ::testing::Test {
 protected:
  void Save(std::int64_t step, const nlohmann::json& state, float first = 0) {
    auto store = *CheckpointStore::Open(files_, "/saved", keep_, {.job_uid = "job"});
    Snapshot snapshot{.step = step,
                      .state = state,
                      .model = TensorsOf(OneDenseLayer()),
                      .optimizer = {},
                      .model_hash = "hash",
                      .saved = {}};
    snapshot.model[0].data[0] = first;
    ASSERT_TRUE(store->Save(snapshot).ok());
  }
  void SaveStep(std::int64_t step, float first = 0) {
    Save(step, {{"model", DescriptionToJson(OneDenseLayer())}}, first);
  }
  void SetUp() override { ASSERT_TRUE(files_.CreateDirectories("/out").ok()); }

  absl::StatusOr<std::string> Export(const std::string& checkpoint, const std::string& file) {
    return ExportModel({.checkpoint = checkpoint, .file = file}, watched_);
  }
  std::string Content(const std::string& path) { return *files_.ReadFile(path, kMostJsonBytes); }

  int keep_ = 3;
  FaultFileSystem files_;
  WatchedFileSystem watched_{files_};
};

TEST_F(ExportModelTest, ADirectoryStandsForItsNewestCheckpoint) {
  SaveStep(5, 1);
  SaveStep(10, 2);
  const auto newest = Export("/saved", "/out/model.safetensors");
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(*newest, "/out/model.safetensors: 2 tensors of /saved/step-00000010, step 10");
  EXPECT_EQ(Content("/out/model.safetensors"), Content("/saved/step-00000010/model.safetensors"));
  const auto given = Export("/saved/step-00000005", "/out/model.safetensors");
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(Content("/out/model.safetensors"), Content("/saved/step-00000005/model.safetensors"));
}

TEST_F(ExportModelTest, OfARunThatKeepsItsBestModelThatOneIsExported) {
  Snapshot snapshot{.step = 10,
                    .state = {{"model", DescriptionToJson(OneDenseLayer())},
                              {"run", {{"step", 10}, {"best", {{"step", 5}}}}}},
                    .model = TensorsOf(OneDenseLayer()),
                    .optimizer = {},
                    .model_hash = "hash",
                    .saved = {},
                    .best = TensorsOf(OneDenseLayer())};
  snapshot.best[0].data[0] = 7;
  ASSERT_TRUE(
      (*CheckpointStore::Open(files_, "/saved", keep_, {.job_uid = "job"}))->Save(snapshot).ok());
  const auto exported = Export("/saved", "/out/model.safetensors");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(*exported, "/out/model.safetensors: 2 tensors of /saved/step-00000010, step 5");
  const std::string model = Content("/out/model.safetensors");
  EXPECT_EQ(model, Content("/saved/step-00000010/model.safetensors"));
  EXPECT_NE(model, Content("/saved/step-00000010/training.safetensors"));
}

TEST_F(ExportModelTest, AFolderWithoutManifestIsNoCheckpoint) {
  SaveStep(5);
  ASSERT_TRUE(files_.CreateDirectories("/saved/step-00000009").ok());
  const auto newest = Export("/saved", "/out/model.onnx");
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_THAT(*newest, HasSubstr("step 5"));
  const auto none = Export("/saved/step-00000009", "/out/model.onnx");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()),
              StartsWith("/saved/step-00000009: found no checkpoint"));
}

TEST_F(ExportModelTest, ACheckpointOfAnEarlierVersionDoesNotSayItsLayers) {
  Save(5, {{"run", {{"epoch", 1}}}});
  const auto exported = Export("/saved", "/out/model.onnx");
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(exported.status().message()),
              StartsWith("/saved/step-00000005/manifest.json: found no state.model, expected"));
}

TEST_F(ExportModelTest, AMalformedDescriptionIsNamed) {
  Save(5, {{"model", {{"layers", 3}}}});
  EXPECT_EQ(Export("/saved/step-00000005", "/out/model.onnx").status().message(),
            "/saved/step-00000005/manifest.json: state.model.layers: found 3, expected a list");
}

TEST_F(ExportModelTest, DamagedTensorsAreNotExported) {
  SaveStep(5);
  files_.Content("/saved/step-00000005/model.safetensors").back() ^= 1;
  const auto exported = Export("/saved", "/out/model.safetensors");
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(files_.Exists("/out/model.safetensors"));
}

// As the job itself goes on.
TEST_F(ExportModelTest, ADamagedCheckpointOfADirectoryIsPassedOver) {
  SaveStep(4);
  SaveStep(5);
  ASSERT_TRUE(files_.WriteFile("/saved/step-00000007", {}).ok());
  files_.Content("/saved/step-00000005/model.safetensors").back() ^= 1;
  const auto exported = Export("/saved", "/out/model.safetensors");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(*exported, HasSubstr("/saved/step-00000004, step 4"));
  const auto given = Export("/saved/step-00000005", "/out/model.safetensors");
  EXPECT_EQ(given.status().code(), absl::StatusCode::kDataLoss) << "no other one was asked for";
}

TEST_F(ExportModelTest, ACheckpointThatARunningJobRemovesGivesWayToTheNext) {
  keep_ = 1;
  for (const char* opened : {"manifest.json", "model.safetensors"}) {
    ASSERT_TRUE(files_.RemoveRecursively("/saved").ok());
    SaveStep(5);
    watched_.before_reading = [&](const std::string& path) {
      if (path == std::string("/saved/step-00000005/") + opened) SaveStep(10);
    };
    const auto exported = Export("/saved", "/out/model.safetensors");
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_THAT(*exported, HasSubstr("/saved/step-00000010, step 10"));
  }
}

TEST_F(ExportModelTest, ACheckpointThatIsSavedWhileTheLastOneIsRemovedIsFound) {
  keep_ = 1;
  SaveStep(5);
  ASSERT_TRUE(files_.CreateDirectories("/saved/step-00000010").ok());
  watched_.before_listing = [&, saved = false](const std::string& path) mutable {
    if (path != "/saved/step-00000005" || std::exchange(saved, true)) return;
    SaveStep(11);
    ASSERT_TRUE(files_.CreateDirectories(path).ok());  // without a manifest, and not gone yet
  };
  const auto exported = Export("/saved", "/out/model.safetensors");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(*exported, HasSubstr("step 11"));
}

TEST_F(ExportModelTest, ALinkThatLeadsNowhereIsPassedOver) {
  const TempDirectory folder;
  const auto store = *CheckpointStore::Open(RealFileSystem(), folder.path(), 1, {});
  ASSERT_TRUE(store
                  ->Save({.step = 5,
                          .state = {{"model", DescriptionToJson(OneDenseLayer())}},
                          .model = TensorsOf(OneDenseLayer()),
                          .optimizer = {},
                          .model_hash = "hash",
                          .saved = {}})
                  .ok());
  std::filesystem::create_symlink("nowhere", folder.At("step-00000007"));
  const auto exported =
      ExportModel({.checkpoint = folder.path(), .file = folder.At("model.onnx")}, RealFileSystem());
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(*exported, HasSubstr("step 5"));
}

TEST_F(ExportModelTest, AJobThatRemovesEachCheckpointBeforeItIsReadEndsTheExport) {
  keep_ = 1;
  SaveStep(5);
  watched_.before_reading = [&, step = 5](const std::string& path) mutable {
    if (path.ends_with("model.safetensors")) SaveStep(++step);
  };
  const auto exported = Export("/saved", "/out/model.safetensors");
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kUnavailable) << exported.status();
  EXPECT_THAT(std::string(exported.status().message()), HasSubstr("checkpoint.keep"));
}

TEST_F(ExportModelTest, OtherEndingsAreRefused) {
  SaveStep(5);
  const auto exported = Export("/saved", "/out/model.pt");
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(exported.status().message(),
            "/out/model.pt: found the ending '.pt', expected .onnx or .safetensors");
}

TEST_F(ExportModelTest, AFullDiskLeavesTheOldFileAlone) {
  SaveStep(5, 1);
  ASSERT_TRUE(Export("/saved", "/out/model.onnx").ok());
  const std::string old = Content("/out/model.onnx");
  SaveStep(10, 2);
  files_.FillDiskInOperation(1, /*stays_full=*/false);
  const auto exported = Export("/saved", "/out/model.onnx");
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Content("/out/model.onnx"), old);
  EXPECT_EQ(*files_.ListDirectory("/out"), std::vector<std::string>{"model.onnx"});
}

}  // namespace
}  // namespace lockstep::train
