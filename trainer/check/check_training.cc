#include "trainer/check/check_training.h"

#include <fmt/format.h>

#include <array>
#include <future>
#include <string>
#include <utility>

#include "base/status.h"
#include "trainer/check/check_case.h"
#include "trainer/check/training_state.h"
#include "trainer/train/bench/solo_training.h"

namespace lockstep::train {
namespace {

constexpr int kTrainedSteps = 3;
// Enough that two replays are in flight: the first step is queued op by op.
constexpr int kRecordedSteps = 5;
constexpr std::int64_t kTrainedBatch = 4;

struct TrainedPrecision {
  api::Precision precision;
  const char* type;
  double tolerance;  // what is rounded differently grows with each step
};
constexpr std::array kTrainedPrecisions = {
    TrainedPrecision{api::Precision::kFloat32, "float32", 1e-4},
    TrainedPrecision{api::Precision::kTF32, "TF32", 5e-3},  // as many bits as float16
    TrainedPrecision{api::Precision::kBFloat16, "bfloat16", 2e-2},
    TrainedPrecision{api::Precision::kFloat16, "float16", 5e-3}};

SessionOptions OptionsOf(api::Precision precision, int threads) {
  SessionOptions options{.training = SyntheticTraining("core-cnn", kTrainedBatch,
                                                       {.train_examples = 64, .test_examples = 8}),
                         .threads = threads};
  options.training.steps = kTrainedSteps;
  options.training.precision = precision;
  return options;
}

// The losses of the steps, per sample.
absl::StatusOr<std::vector<float>> Losses(const SessionOptions& options,
                                          std::unique_ptr<Backend> backend) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto training, SoloTraining::Create(options, std::move(backend)));
  std::vector<float> losses;
  for (int step = 0; step < kTrainedSteps; ++step) {
    LOCKSTEP_ASSIGN_OR_RETURN(const StepTotals totals, training->Step());
    losses.push_back(static_cast<float>(totals.loss / totals.examples));
  }
  return losses;
}

void CheckLosses(const absl::StatusOr<std::vector<float>>& expected,
                 const BackendFactory& make_backend, const SessionOptions& options,
                 CheckCase& result) {
  auto backend = make_backend(options.training.precision);
  if (!backend.ok()) return result.Fail(std::string(backend.status().message()));
  const auto found = Losses(options, *std::move(backend));
  for (const auto& losses : {expected, found}) {
    if (!losses.ok()) return result.Fail(std::string(losses.status().message()));
  }
  for (std::size_t step = 0; step < found->size(); ++step) {
    result.Close(fmt::format("loss of step {}", step + 1), std::array{(*found)[step]},
                 std::array{(*expected)[step]});
  }
}

// Masks, running statistics, and an epoch that ends with a short batch.
api::TrainingSpec ChangingSteps() {
  api::TrainingSpec training = SyntheticTraining(
      "", 16, {.train_examples = 70, .test_examples = 8, .shape = {1, 8, 8}, .classes = 3});
  training.model.layers = api::Json::array({{{"type", "Conv2D"}, {"filters", 4}, {"kernelSize", 3}},
                                            {{"type", "BatchNormalization"}},
                                            {{"type", "ReLU"}},
                                            {{"type", "Flatten"}},
                                            {{"type", "Dropout"}, {"rate", 0.25}},
                                            {{"type", "Dense"}, {"units", 3}}});
  return training;
}

struct Recorded {
  std::vector<float> loss;   // of the last step
  std::vector<float> state;  // TrainingState
  bool has_recorded = false;
};

absl::StatusOr<Recorded> TrainAtOnce(const SessionOptions& options,
                                     std::unique_ptr<Backend> backend) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto training, SoloTraining::Create(options, std::move(backend)));
  LOCKSTEP_ASSIGN_OR_RETURN(const StepTotals last, training->Run(kRecordedSteps));
  Recorded recorded{.loss = {static_cast<float>(last.loss)}};
  Session& session = training->session();
  recorded.state = TrainingState(session);
  recorded.has_recorded = session.recorder().has_recorded();
  return recorded;
}

void CheckRecorded(const BackendFactory& make_backend, SessionOptions options, CheckCase& result) {
  options.training.steps = kRecordedSteps;
  std::array<Recorded, 2> found;
  for (const bool records : {false, true}) {
    options.records_steps = records;
    auto backend = make_backend(options.training.precision);
    if (!backend.ok()) return result.Fail(std::string(backend.status().message()));
    auto trained = TrainAtOnce(options, *std::move(backend));
    if (!trained.ok()) return result.Fail(std::string(trained.status().message()));
    found[records ? 1 : 0] = *std::move(trained);
  }
  const auto& [queued, recorded] = found;
  if (!recorded.has_recorded) result.Fail("the device has refused to record a part of the step");
  result.Same("the last loss", recorded.loss, queued.loss);
  result.Same("the parameters and states", recorded.state, queued.state);
}

}  // namespace

std::vector<CheckGroup> CheckTraining(const BackendFactory& make_backend, int threads) {
  using Expected = std::future<absl::StatusOr<std::vector<float>>>;
  std::vector<Expected> expected;
  for (const TrainedPrecision& trained : kTrainedPrecisions) {
    expected.push_back(std::async(std::launch::async, [&trained] {
      return Losses(OptionsOf(trained.precision, 1), MakeBackend({.name = "reference"}));
    }));
  }
  std::vector<CheckGroup> groups;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TrainedPrecision& trained = kTrainedPrecisions[i];
    CheckGroup& group = groups.emplace_back(
        CheckGroup{.name = "training", .type = trained.type, .tolerance = trained.tolerance});
    CheckCase result(group, "core-cnn",
                     fmt::format("batch {}, {} steps", kTrainedBatch, kTrainedSteps));
    const absl::StatusOr<std::vector<float>> losses = expected[i].get();
    result.Run(
        [&] { CheckLosses(losses, make_backend, OptionsOf(trained.precision, threads), result); });
  }
  return groups;
}

std::vector<CheckGroup> CheckRecordedSteps(const BackendFactory& make_backend, int threads) {
  {
    const auto any = make_backend(api::Precision::kFloat32);
    if (any.ok() && !(*any)->Records()) return {};
  }
  std::vector<CheckGroup> groups;
  for (const TrainedPrecision& trained : kTrainedPrecisions) {
    CheckGroup& group =
        groups.emplace_back(CheckGroup{.name = "recorded steps", .type = trained.type});
    SessionOptions options = OptionsOf(trained.precision, threads);
    const std::string input = fmt::format("{} steps", kRecordedSteps);
    CheckCase core_cnn(group, "core-cnn", input);
    core_cnn.Run([&] { CheckRecorded(make_backend, options, core_cnn); });
    options.training = ChangingSteps();
    options.training.precision = trained.precision;
    CheckCase changing(group, "BatchNormalization, Dropout and a short batch", input);
    changing.Run([&] { CheckRecorded(make_backend, options, changing); });
  }
  return groups;
}

}  // namespace lockstep::train
