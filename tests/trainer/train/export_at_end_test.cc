#include "trainer/export/export_at_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fault_file_system.h"
#include "tests/support/spawn_ranks.h"
#include "tests/trainer/train/rank.h"
#include "trainer/export/export_model.h"
#include "trainer/export/onnx_model.h"
#include "trainer/train/generations.h"
#include "trainer/train/initial_weights.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using At = StrategyFaults::At;

constexpr char kTensors[] = "/out/model.safetensors";
constexpr char kGraph[] = "/out/model.onnx";

class ExportAtEndTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(files_.CreateDirectories("/out").ok());
    training_.checkpoint.export_to = kTensors;
  }
  std::unique_ptr<Rank> MakeRank(const std::string& device = "reference") {
    auto rank = std::make_unique<Rank>(training_, 1, hub_, 0, nullptr, device, store_.get());
    rank->loop.files = &files_;
    return rank;
  }
  // As the process that started `process`th does.
  void OpenCheckpoints(std::int64_t process) {
    store_ =
        *CheckpointStore::Open(files_, "/saved", 3, {.job_uid = "uid", .pod_started = process});
  }
  // What a job begins with whose initialWeights are the exported file.
  std::vector<float> ParametersIn(const std::string& file) {
    const auto session = *Session::Create({.training = training_, .backend = "reference"});
    const auto taken = LoadInitialWeights({.path = file, .exclude = {}}, files_, *session);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return Download(session->backend(), session->model().parameters());
  }

  api::TrainingSpec training_ = SmallTraining();  // 20 steps
  LocalRendezvousHub hub_{1};
  FaultFileSystem files_;
  std::unique_ptr<CheckpointStore> store_;
};

TEST_F(ExportAtEndTest, TheFileHasTheParametersOfTheLastStep) {
  for (const std::string& device : kDevices) {
    const auto rank = MakeRank(device);
    EXPECT_TRUE(rank->Train());
    EXPECT_EQ(ParametersIn(kTensors), rank->Parameters()) << device;
    EXPECT_TRUE(files_.RemoveRecursively(kTensors).ok());
  }
}

TEST_F(ExportAtEndTest, ItIsWhatAnExportOfTheLastCheckpointWouldBe) {
  for (const std::string file : {kTensors, kGraph}) {
    training_.checkpoint.export_to = file;
    OpenCheckpoints(1);
    EXPECT_TRUE(MakeRank()->Train());
    const std::string at_end = files_.Content(file);
    ASSERT_TRUE(ExportModel({.checkpoint = "/saved", .file = file}, files_).ok());
    EXPECT_EQ(at_end, files_.Content(file));
  }
}

TEST_F(ExportAtEndTest, TheAverageIsExportedInPlaceOfTheParameters) {
  training_.ema = api::EmaSpec{.decay = 0.75};
  OpenCheckpoints(1);
  const auto rank = MakeRank();
  EXPECT_TRUE(rank->Train());
  Session& session = *rank->session;
  EXPECT_EQ(ParametersIn(kTensors), Download(session.backend(), session.optimizer().average()));
  EXPECT_NE(ParametersIn(kTensors), rank->Parameters());
  const std::string at_end = files_.Content(kTensors);
  ASSERT_TRUE(ExportModel({.checkpoint = "/saved", .file = kTensors}, files_).ok());
  EXPECT_EQ(at_end, files_.Content(kTensors));
}

TEST_F(ExportAtEndTest, OnlyTheLeadingRankExports) {
  LocalRendezvousHub hub(2);
  SpawnThreads(2, [&](int index) {
    FaultFileSystem own;  // of another pod
    ASSERT_TRUE(own.CreateDirectories("/out").ok());
    Rank rank(training_, 2, hub, index);
    rank.loop.files = &own;
    EXPECT_TRUE(rank.Train());
    EXPECT_EQ(own.Exists(kTensors), index == 0);
  });
}

TEST_F(ExportAtEndTest, WithoutAPathNothingIsExported) {
  training_.checkpoint.export_to.clear();
  EXPECT_TRUE(MakeRank()->Train());
  EXPECT_EQ(*files_.ListDirectory("/out"), std::vector<std::string>{});
}

TEST_F(ExportAtEndTest, ARunThatIsStoppedOrDivergesDoesNotExport) {
  const auto stopped = MakeRank();
  stopped->rendezvous.asked_to_stop = true;
  EXPECT_EQ(stopped->RunOnce().end, LoopEnd::kStopped);
  const auto diverged = MakeRank();
  diverged->faults.before = [&](At) {
    if (diverged->loop.state.step == 19) diverged->session->model().parameters()[0] = NAN;
    return absl::OkStatus();
  };
  EXPECT_EQ(diverged->RunOnce().end, LoopEnd::kDiverged);
  EXPECT_EQ(*files_.ListDirectory("/out"), std::vector<std::string>{});
}

// The process that has saved the last checkpoint was the last one to train.
TEST_F(ExportAtEndTest, TheNextProcessExportsWhatThisOneCouldNot) {
  OpenCheckpoints(1);
  const auto rank = MakeRank();
  rank->rendezvous.at_activity = [&](api::Activity) {
    if (rank->saver->outcome().last_saved_step == 20) files_.FillDiskInOperation(1, true);
  };
  const LoopOutcome failed = rank->RunOnce();
  EXPECT_EQ(failed.end, LoopEnd::kStorageRefused) << failed.reason;
  EXPECT_THAT(std::string(failed.reason.message()),
              AllOf(HasSubstr("spec.training.checkpoint.exportTo: the trained model is not "
                              "exported: /out/model.safetensors: "),
                    HasSubstr("space")));
  files_.Reboot(FaultFileSystem::kKeepAll);
  EXPECT_FALSE(files_.Exists(kTensors));
  OpenCheckpoints(2);
  const auto successor = MakeRank();
  EXPECT_TRUE(successor->Train());
  EXPECT_EQ(ParametersIn(kTensors), rank->Parameters());
  EXPECT_EQ(successor->saver->outcome().last_saved_step, -1) << "the checkpoint is still the same";
}

TEST_F(ExportAtEndTest, AFailureEndsTheProcessWithTheCodeOfStorage) {
  const RestartBudgetOptions twice = {.restarts = 1,
                                      .first_delay = std::chrono::milliseconds(1),
                                      .longest_delay = std::chrono::milliseconds(1)};
  training_.checkpoint.export_to = "/lost/model.safetensors";
  const auto lost = MakeRank();
  EXPECT_EQ(RunGenerations(lost->loop, twice), api::kExitStorage);
  EXPECT_EQ(lost->loop.state.step, 20);
  training_.checkpoint.export_to = kTensors;
  const auto full = MakeRank();
  files_.FillDiskInOperation(1, /*stays_full=*/true);
  EXPECT_EQ(RunGenerations(full->loop, twice), api::kExitStorage);
}

TEST_F(ExportAtEndTest, AFolderThatComesBackIsTriedAgain) {
  training_.checkpoint.export_to = "/lost/model.safetensors";
  const auto rank = MakeRank();
  EXPECT_EQ(rank->RunOnce().end, LoopEnd::kStorage);
  ASSERT_TRUE(files_.CreateDirectories("/lost").ok());
  EXPECT_EQ(RunGenerations(rank->loop), api::kExitDone);
  EXPECT_EQ(ParametersIn("/lost/model.safetensors"), rank->Parameters());
}

// The peers of the first one did not hear of its end.
TEST_F(ExportAtEndTest, AGenerationThatIsFormedAgainAtTheEndDoesNotExportAgain) {
  const auto rank = MakeRank();
  EXPECT_EQ(rank->RunOnce().end, LoopEnd::kDone);
  EXPECT_TRUE(files_.Exists(kTensors));
  EXPECT_TRUE(files_.RemoveRecursively(kTensors).ok());
  EXPECT_EQ(rank->RunOnce().end, LoopEnd::kDone);
  EXPECT_FALSE(files_.Exists(kTensors));
}

TEST_F(ExportAtEndTest, TheFolderIsMadeBeforeTheFirstStep) {
  EXPECT_TRUE(PrepareExport("/new/folder/model.onnx", kMostOnnxBytes, {}, files_).ok());
  EXPECT_TRUE(files_.Exists("/new/folder"));
  EXPECT_TRUE(PrepareExport("", 1, {}, files_).ok());
  files_.FillDiskInOperation(1, /*stays_full=*/false);
  EXPECT_TRUE(absl::IsResourceExhausted(PrepareExport("/more/model.onnx", 1, {}, files_)));
}

TEST_F(ExportAtEndTest, AFolderThatTakesNoFilesIsRefusedBeforeTheFirstStep) {
  files_.FillDiskInOperation(2, /*stays_full=*/false);  // the draft, after the folder
  const absl::Status refused = PrepareExport(kTensors, 1, {}, files_);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("spec.training.checkpoint.exportTo: the trained model cannot be "
                              "exported: /out/model.safetensors: "),
                    HasSubstr("space")));
  EXPECT_EQ(*files_.ListDirectory("/out"), std::vector<std::string>{});
}

// The kernel refuses files there to every user.
TEST_F(ExportAtEndTest, AFolderThatDeniesAccessIsRefusedBeforeTheFirstStep) {
  const absl::Status refused = PrepareExport("/sys/model.onnx", 1, {}, RealFileSystem());
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(EndOfStore(refused).end, LoopEnd::kStorageRefused);
}

TEST_F(ExportAtEndTest, AnEarlierFileStaysUntilTheLastStep) {
  const std::string earlier = "earlier";
  ASSERT_TRUE(files_.WriteFile(kTensors, {std::as_bytes(std::span(earlier))}).ok());
  EXPECT_TRUE(PrepareExport(kTensors, 1, {}, files_).ok());
  EXPECT_EQ(files_.Content(kTensors), earlier);
  EXPECT_THAT(*files_.ListDirectory("/out"), ElementsAre("model.safetensors"));
}

TEST_F(ExportAtEndTest, AFolderAtThePathIsRefusedBeforeTheFirstStep) {
  ASSERT_TRUE(files_.CreateDirectories(kGraph).ok());
  const absl::Status refused = PrepareExport(kGraph, 1, {}, files_);
  EXPECT_EQ(EndOfStore(refused).end, LoopEnd::kFailed);
  EXPECT_EQ(refused.message(),
            "spec.training.checkpoint.exportTo: the trained model cannot be exported: "
            "/out/model.onnx: found a folder, expected a file or nothing");
}

TEST_F(ExportAtEndTest, AFileThatCannotHoldTheModelIsRefusedBeforeTheFirstStep) {
  EXPECT_EQ(PrepareExport("/out/model.pt", 1, {}, files_).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(PrepareExport(kTensors, kMostOnnxBytes + 1, {}, files_).ok());
  const absl::Status refused = PrepareExport(kGraph, kMostOnnxBytes + 1, {}, files_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "spec.training.checkpoint.exportTo: found /out/model.onnx with a model of 2147483648 "
            "bytes, expected at most 2147483647 for an ONNX file; a .safetensors file may be "
            "larger");
}

}  // namespace
}  // namespace lockstep::train
