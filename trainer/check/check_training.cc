#include "trainer/check/check_training.h"

#include <fmt/format.h>

#include <array>
#include <future>
#include <string>
#include <utility>

#include "base/status.h"
#include "trainer/check/check_case.h"
#include "trainer/train/solo_training.h"

namespace lockstep::train {
namespace {

constexpr int kTrainedSteps = 3;
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

}  // namespace lockstep::train
