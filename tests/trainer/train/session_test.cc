#include "trainer/train/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/train/rank.h"
#include "trainer/backend/measuring_backend.h"
#include "trainer/data/sample_hash.h"
#include "trainer/rendezvous/fingerprint.h"
#include "trainer/train/evaluate.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string FingerprintOf(const api::TrainingSpec& training) {
  return (*Session::Create({.training = training, .backend = "reference"}))->Fingerprint();
}

TEST(SessionTest, EpochsWithoutEndAreManySteps) {
  api::TrainingSpec training;
  training.epochs = (std::int64_t{1} << 53) - 1;
  const StepPlan plan{.examples = 1025 * 64, .global_batch = 64};
  EXPECT_GT(TotalSteps(training, plan), std::int64_t{1} << 62);
  training.epochs = 3;
  EXPECT_EQ(TotalSteps(training, plan), 3 * 1025);
}

TEST(SessionTest, TrainingReadsAsTheJobSays) {
  api::TrainingSpec training = SmallTraining();
  training.seed = 7;
  training.dataset.shuffle = false;
  training.dataset.prefetch = 5;
  training.dataset.threads = 3;
  training.dataset.augment = api::AugmentSpec{.random_flip = api::RandomFlip::kHorizontal};
  const auto session = *Session::Create({.training = training, .world = 2, .backend = "reference"});
  const LoaderOptions reads = session->TrainingReads(1);
  EXPECT_EQ(reads.rank, 1);
  EXPECT_EQ(reads.plan.world, 2);
  EXPECT_EQ(reads.seed, 7u);
  EXPECT_FALSE(reads.shuffle);
  EXPECT_EQ(reads.prefetch, 5);
  EXPECT_EQ(reads.threads.count, 3);
  EXPECT_EQ(reads.augment, training.dataset.augment);
  EXPECT_EQ(reads.end_step, 20);
}

TEST(SessionTest, TheFingerprintTellsWhichDataThisRankSees) {
  api::TrainingSpec training = SmallTraining();
  EXPECT_THAT(FingerprintOf(training), StartsWith("trainSamples=70;testSamples=33;sample=uint8 "
                                                  "[1,8,8];classes=3;labelNumbers=0;trainDigest="));
  training.dataset.synthetic->train_examples = 69;
  training.evaluation.enabled = false;
  EXPECT_THAT(FingerprintOf(training),
              StartsWith("trainSamples=69;testSamples=0;sample=uint8 [1,8,8];classes=3;"));
}

TEST(SessionTest, TheFingerprintTellsDataOfTheSameSizesApart) {
  api::TrainingSpec training = SmallTraining();
  const std::string own = FingerprintOf(training);
  EXPECT_EQ(FingerprintOf(training), own);
  training.seed += 1;  // draws other samples
  const auto difference = FirstDifference(FingerprintOf(training), own);
  ASSERT_TRUE(difference);
  EXPECT_THAT(difference->own, StartsWith("trainDigest="));
}

std::vector<std::uint8_t> FirstTestSample(const Session& session) {
  std::vector<std::uint8_t> sample(session.test_data()->sample_bytes());
  EXPECT_TRUE(session.test_data()->Read(0, sample).ok());
  return sample;
}

// What a pass has left there would reach the gradients, if it is not finite: 0 times it is NaN.
TEST(SessionTest, RowsBehindTheBatchAreZeros) {
  for (const std::string& device : {std::string("reference"), std::string("async-reference")}) {
    SessionOptions options{.training = SmallTraining(), .backend = device};
    options.training.batch_size = {.global = 10, .per_replica = {}};
    options.training.gradient_accumulation = 3;
    const auto session = *Session::Create(options);
    const auto loader = Loader::Create(session->train_data(), session->TrainingReads(0));
    loader->Seek(0);
    Batch batch = **loader->Next();
    batch.valid = 7;  // so that the third part of four rows has none
    const auto elements = static_cast<std::size_t>(session->train_data().sample_shape().elements());
    const std::vector<float> spoiled(4 * elements, NAN);
    session->backend().Upload(spoiled.data(), session->model().input(),
                              spoiled.size() * sizeof(float));
    session->Load(batch, 2);
    std::vector<float> found(spoiled.size());
    session->backend().Download(session->model().input(), found.data(),
                                found.size() * sizeof(float));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t row = 7 + i / elements;
      const double expected = row < 10 ? batch.pixels[7 * elements + i] / 255.0 : 0.0;
      ASSERT_NEAR(found[i], expected, 1e-6) << device << ", element " << i;
    }
  }
}

// Two channels, each with its own numbers.
api::TrainingSpec NormalizedTraining() {
  api::TrainingSpec training = SmallTraining();
  training.dataset.synthetic->shape = {2, 8, 8};
  training.dataset.normalize = api::NormalizeSpec{{0.25, 0.5}, {0.1, 0.2}};
  return training;
}

TEST(SessionTest, TheModelReadsNormalizedPixels) {
  for (const std::string& device : {std::string("reference"), std::string("async-reference")}) {
    SessionOptions options{.training = NormalizedTraining(), .backend = device};
    const auto session = *Session::Create(options);
    const auto loader = Loader::Create(session->train_data(), session->TrainingReads(0));
    loader->Seek(0);
    const Batch& batch = **loader->Next();
    session->Load(batch, 0);
    std::vector<float> found(batch.pixels.size());
    session->backend().Download(session->model().input(), found.data(),
                                found.size() * sizeof(float));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool is_first = i / 64 % 2 == 0;
      const double expected =
          (batch.pixels[i] / 255.0 - (is_first ? 0.25 : 0.5)) / (is_first ? 0.1 : 0.2);
      ASSERT_NEAR(found[i], expected, 1e-5) << device << ", element " << i;
    }
  }
}

TEST(SessionTest, NormalizationThatDoesNotFitTheImagesIsRefused) {
  SessionOptions options{.training = NormalizedTraining(), .backend = "reference"};
  options.training.dataset.synthetic->shape = {1, 8, 8};
  const char* const expected =
      "spec.training.dataset.normalize.mean: found 2 numbers for images of 1 channels, expected "
      "one "
      "for each channel";
  EXPECT_EQ(std::string(Session::Create(options).status().message()), expected);
  options.only_evaluates = true;
  EXPECT_EQ(std::string(Session::OpenData(options).status().message()), expected);
}

TEST(SessionTest, PixelsThatAreNormalizedOtherwiseAreOtherData) {
  SessionOptions options{.training = NormalizedTraining(), .backend = "reference"};
  const auto session = *Session::Create(options);
  options.training.dataset.normalize->std[1] = 0.3;
  const auto other = *Session::Create(options);
  EXPECT_NE(session->train_digest(), other->train_digest());
  EXPECT_NE(session->EvaluationDigest(), other->EvaluationDigest());
  const Snapshot snapshot = MakeSnapshot(*session, {.step = 7}, Time());
  RunState state;
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(RestoreSnapshot(snapshot, *other, state).ok());
  EXPECT_EQ(state.step, 7) << "the samples are the same ones";
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the training samples are not those of the checkpoint"));
}

TEST(SessionTest, TheDataDoNotDependOnTheSeedIfTheyHaveTheirOwn) {
  const auto session_of = [](std::int64_t seed, std::optional<std::int64_t> data_seed) {
    SessionOptions options{.training = SmallTraining(), .backend = "reference"};
    options.training.seed = seed;
    options.data_seed = data_seed;
    return *Session::Create(options);
  };
  const auto first = session_of(3, 3), other = session_of(4, 3);
  EXPECT_EQ(FirstTestSample(*first), FirstTestSample(*other));
  EXPECT_NE(FirstTestSample(*first), FirstTestSample(*session_of(4, std::nullopt)));
}

TEST(SessionTest, ACheckpointOfOtherDataIsRefusedAndAnOldOneHasOneSeed) {
  SessionOptions options{.training = SmallTraining(), .backend = "reference"};
  options.training.seed = 4;
  options.data_seed = 3;
  const auto session = *Session::Create(options);
  Snapshot snapshot = MakeSnapshot(*session, {.step = 1}, Time());
  RunState state;
  EXPECT_TRUE(RestoreSnapshot(snapshot, *session, state).ok());
  options.data_seed = std::nullopt;
  const auto other = *Session::Create(options);
  EXPECT_THAT(std::string(RestoreSnapshot(snapshot, *other, state).message()),
              HasSubstr("was saved with dataSeed = 3, this job has 4"));
  snapshot.state["settings"].erase("dataSeed");
  EXPECT_TRUE(RestoreSnapshot(snapshot, *other, state).ok());
}

TEST(SessionTest, ACheckpointOfAnotherOrderOfSamplesIsRefused) {
  SessionOptions options{.training = SmallTraining(), .backend = "reference"};
  Snapshot snapshot = MakeSnapshot(**Session::Create(options), {.step = 1}, Time());
  options.training.dataset.shuffle = false;
  const auto other = *Session::Create(options);
  RunState state;
  EXPECT_THAT(std::string(RestoreSnapshot(snapshot, *other, state).message()),
              HasSubstr("was saved with shuffle = true, this job has false"));
  snapshot.state["settings"].erase("shuffle");
  EXPECT_TRUE(RestoreSnapshot(snapshot, *other, state).ok()) << "an earlier version's";
}

// 70 samples in batches of 16 are 5 steps an epoch, and so are 69, but not 64.
TEST(SessionTest, ACheckpointOfAnotherNumberOfSamplesGoesOnWithTheNextEpoch) {
  SessionOptions options{.training = SmallTraining(), .backend = "reference"};
  const auto session = *Session::Create(options);
  RunState saved{.step = 7, .evaluated_step = 5};
  saved.ledger.Check(1);  // an epoch that lost a sample
  saved.ledger.Add(32, 1234);
  const auto restored = [&](std::int64_t examples) -> absl::StatusOr<RunState> {
    options.training.dataset.synthetic->train_examples = examples;
    RunState state;
    const absl::Status status =
        RestoreSnapshot(MakeSnapshot(*session, saved, Time()), **Session::Create(options), state);
    if (!status.ok()) return status;
    return state;
  };
  EXPECT_EQ(*restored(70), saved);
  RunState next = *restored(69);
  EXPECT_EQ(next.step, 10);
  EXPECT_EQ(next.StepsWithoutUpdate(), 3) << "Adam has the moments of seven";
  EXPECT_EQ(next.ledger.count(), 0);
  EXPECT_EQ(next.ledger.lost_total(), 1);
  const StepPlan plan{.examples = 69, .global_batch = 16};
  for (int step = 0; step < 5; ++step) {
    StepTotals totals{.examples = static_cast<double>(plan.GlobalExamples(next.step))};
    for (std::int64_t i = step * 16; i < std::min(69, step * 16 + 16); ++i) {
      totals.hash += SampleHash(i);
    }
    ApplyStep(totals, plan, next);
  }
  EXPECT_EQ(next.ledger.lost_total(), 1) << "the next epoch balances";
  EXPECT_EQ(next.ledger.duplicated_total(), 0);
  EXPECT_THAT(std::string(restored(64).status().message()),
              HasSubstr("was saved with examples = 70, this job has 64, and so an epoch 4 steps "
                        "instead of 5: put back the samples that are gone"));
  saved.step = 10;
  EXPECT_EQ(restored(69)->step, 10) << "at an epoch's end";
  saved.step = 17;
  EXPECT_THAT(std::string(restored(69).status().message()),
              HasSubstr("and no epoch follows in which to go on"));
  saved.step = 20;
  EXPECT_EQ(restored(69)->step, 20);
  EXPECT_TRUE(RestoreModel(MakeSnapshot(*session, saved, Time()), **Session::Create(options)).ok())
      << "an Evaluator's";
}

TEST(SessionTest, ACheckpointOfOtherSamplesIsRestoredWithAWarning) {
  const TempDirectory folder;
  WriteTextFile(folder.At("train.csv"), "a,b,label\n1,2,0\n3,4,1\n");
  SessionOptions options{.training = SmallTraining(), .backend = "reference"};
  options.training.dataset = {.format = api::DatasetFormat::kCsv, .path = folder.path()};
  options.training.evaluation.enabled = false;
  options.training.batch_size.global = 1;
  options.training.model.layers = api::Json::array({{{"type", "Dense"}, {"units", 2}}});
  Snapshot snapshot = MakeSnapshot(**Session::Create(options), {.step = 1}, Time());
  const Snapshot at_an_end = MakeSnapshot(**Session::Create(options), {.step = 2}, Time());
  const auto log_of_restoring = [&] {
    const auto session = *Session::Create(options);
    RunState state;
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(RestoreSnapshot(snapshot, *session, state).ok());
    EXPECT_EQ(state.step, snapshot.step);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log_of_restoring(), "");
  WriteTextFile(folder.At("train.csv"), "a,b,label\n3,4,1\n1,2,0\n");
  EXPECT_THAT(log_of_restoring(),
              HasSubstr("the training samples are not those of the checkpoint: the epoch that"));
  snapshot = at_an_end;
  EXPECT_THAT(log_of_restoring(),
              HasSubstr("the training samples are not those of the checkpoint: samples that"));
  snapshot.state["trainDigest"] = 5;
  RunState state;
  EXPECT_TRUE(absl::IsDataLoss(RestoreSnapshot(snapshot, **Session::Create(options), state)));
  snapshot.state.erase("trainDigest");
  EXPECT_EQ(log_of_restoring(), "") << "an earlier version's";
}

TEST(SessionTest, AnEvaluationOfAnotherTestSetOrLossIsNotRestored) {
  SessionOptions options{.training = SmallTraining(), .backend = "reference"};
  options.training.model.layers =
      api::Json::array({{{"type", "Flatten"}}, {{"type", "Dense"}, {"units", 1}}});
  options.training.loss.type = api::LossType::kMeanSquaredError;
  options.training.early_stopping.emplace();
  const auto session = *Session::Create(options);
  const RunState saved{.step = 5,
                       .evaluated_step = 5,
                       .test_loss = 0.5,
                       .test_accuracy = 0.75,
                       .evaluated_on = session->EvaluationDigest(),
                       .best = {.step = 5, .value = 0.5}};
  Snapshot snapshot = MakeSnapshot(*session, saved, Time());
  const auto restored = [&](const std::function<void(api::TrainingSpec&)>& change) {
    SessionOptions changed = options;
    change(changed.training);
    RunState state;
    const absl::Status status = RestoreSnapshot(snapshot, **Session::Create(changed), state);
    EXPECT_TRUE(status.ok()) << status;
    return state;
  };
  const auto same = [](api::TrainingSpec&) {};
  const auto other_set = [](api::TrainingSpec& t) { t.dataset.synthetic->test_examples = 34; };
  const auto other_loss = [](api::TrainingSpec& t) {
    t.loss.type = api::LossType::kMeanAbsoluteError;
  };
  EXPECT_EQ(restored(same), saved);
  EXPECT_EQ(restored([](api::TrainingSpec& t) { t.evaluation.enabled = false; }), saved);
  EXPECT_EQ(restored(other_set).evaluated_step, -1);
  EXPECT_EQ(restored(other_set).best, BestEvaluation{});
  EXPECT_EQ(restored(other_loss).evaluated_step, -1);
  snapshot.state["run"].erase("evaluatedOn");  // as in checkpoints of earlier versions
  EXPECT_EQ(restored(other_set).evaluated_step, 5);
}

// What Muon keeps of a matrix is not what AdamW keeps.
TEST(SessionTest, MuonGoesOnOnlyWithTheSameExcludedLayers) {
  SessionOptions options{.training = SmallTraining(), .backend = "reference"};
  options.training.optimizer.name = "Muon";
  options.training.model.layers = api::Json::array({{{"type", "Flatten"}},
                                                    {{"type", "Dense"}, {"units", 4}},
                                                    {{"type", "Dense"}, {"units", 3}}});
  const Snapshot snapshot = MakeSnapshot(**Session::Create(options), {.step = 1}, Time());
  RunState state;
  EXPECT_TRUE(RestoreSnapshot(snapshot, **Session::Create(options), state).ok());
  options.training.optimizer.exclude_layers = {"dense_1"};
  const absl::Status other = RestoreSnapshot(snapshot, **Session::Create(options), state);
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("excludeLayers"));
}

TEST(SessionTest, ARankThatTakesTheParametersOfRankZeroMakesNone) {
  SessionOptions options{.training = SmallTraining(), .world = 2, .backend = "cpu"};
  const auto is_zero = [&](UpdateSite site) {
    options.update_site = site;
    const auto session = *Session::Create(options);
    return std::ranges::all_of(session->model().parameters(), [](float x) { return x == 0; });
  };
  EXPECT_FALSE(is_zero(UpdateSite::kEveryRank));
  EXPECT_FALSE(is_zero(UpdateSite::kThisRank));
  EXPECT_TRUE(is_zero(UpdateSite::kRankZero)) << "they would take memory until the first step";
}

std::unique_ptr<Session> EvaluatingSession(SessionOptions options, const FollowedRun& run) {
  options.only_evaluates = true;
  return *Session::Assemble(options, {.data = *Session::OpenData(options),
                                      .backend = MakeBackend({.name = options.backend}),
                                      .run = run});
}

Evaluation EvaluationOf(Session& session) {
  return *std::get<std::optional<Evaluation>>(EvaluateAlone(session, [] { return false; }, [] {}));
}

TEST(SessionTest, OneThatOnlyEvaluatesHasNothingToTrainWith) {
  for (const std::string& device : kDevices) {
    SessionOptions options{.training = SmallTraining(), .backend = device};
    options.training.gradient_accumulation = 2;
    const auto trains = *Session::Create(options);
    const FollowedRun run{.examples = 70, .input = {1, 8, 8}, .outputs = 3};
    const auto session = EvaluatingSession(options, run);
    EXPECT_EQ(session->total_steps(), trains->total_steps());
    EXPECT_EQ(ModelHash(*session), ModelHash(*trains));
    EXPECT_EQ(session->optimizer().slots(), 0);
    const SessionMemory memory = session->Memory();
    EXPECT_EQ(memory.sums + memory.model.gradients, 0u);
    EXPECT_LT(memory.step, trains->Memory().step) << "no gradients are kept over parts";
    EXPECT_LT(memory.model.activations, trains->Memory().model.activations);
    ASSERT_TRUE(RestoreModel(MakeSnapshot(*trains, {.step = 1}, Time()), *session).ok());
    EXPECT_EQ(EvaluationOf(*session).loss, EvaluationOf(*trains).loss);
    EXPECT_EQ(EvaluationOf(*session).examples, 33);
  }
}

TEST(SessionTest, OneThatOnlyEvaluatesNeedsNoTrainingFiles) {
  const TempDirectory folder;
  WriteTextFile(folder.At("test.csv"), "a,b,label\n1,2,0\n3,4,1\n5,6,1\n");
  SessionOptions options{.training = SmallTraining(), .backend = "reference"};
  options.training.dataset = {.format = api::DatasetFormat::kCsv, .path = folder.path()};
  options.training.model.layers = api::Json::array({{{"type", "Dense"}, {"units", 4}}});
  const FollowedRun run{.examples = 70, .input = {2}, .outputs = 4};
  EXPECT_EQ(EvaluationOf(*EvaluatingSession(options, run)).examples, 3);

  options.only_evaluates = true;
  const auto refusal = [&](const FollowedRun& other) {
    return std::string(Session::Assemble(options, {.data = *Session::OpenData(options),
                                                   .backend = MakeBackend({.name = "reference"}),
                                                   .run = other})
                           .status()
                           .message());
  };
  EXPECT_THAT(refusal({.examples = 70, .input = {3}, .outputs = 4}),
              HasSubstr("test samples are float32 [2], expected float32 [3] as the run's"));
  EXPECT_THAT(refusal({.examples = 70, .input = {2}, .element = DType::kUInt8, .outputs = 4}),
              HasSubstr("test samples are float32 [2], expected uint8 [2] as the run's"))
      << "bytes are divided by 255, and floats are not";
  EXPECT_THAT(refusal({.examples = 70, .input = {2}, .outputs = 1}),
              HasSubstr("test samples need 2 outputs of the model, which has 1 for the run; " +
                        folder.At("test.csv: line ")));
}

TEST(SessionTest, EveryByteOfItsMemoryIsInOnePart) {
  SessionOptions options{.training = SmallTraining()};
  options.training.gradient_accumulation = 2;
  ReservedMemory memory;
  SessionParts parts{.data = *Session::OpenData(options),
                     .backend = MakeMeasuringBackend(MakeBackend({.name = "cpu"}), memory),
                     .initializes_model = false};
  const auto session = *Session::Assemble(options, std::move(parts));
  const SessionMemory bytes = session->Memory();
  EXPECT_EQ(bytes.total(), memory.bytes() + session->buffer().size() * sizeof(float));
  EXPECT_EQ(bytes.model.gradients, 0u) << "they lie in the sums";
  const auto real = *Session::Create(options);
  EXPECT_EQ(real->Memory().total(), bytes.total());
}

}  // namespace
}  // namespace lockstep::train
