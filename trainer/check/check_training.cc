#include "trainer/check/check_training.h"

#include <fmt/format.h>

#include <array>
#include <future>
#include <string>
#include <utility>

#include "base/status.h"
#include "trainer/check/check_case.h"
#include "trainer/check/device_array.h"
#include "trainer/train/solo_training.h"

namespace lockstep::train {
namespace {

constexpr int kTrainedSteps = 3;
constexpr std::int64_t kTrainedBatch = 4;

struct TrainedPrecision {
  api::Precision precision;
  DType type;
  double tolerance;  // what is rounded differently grows with each step
};
constexpr std::array kTrainedPrecisions = {
    TrainedPrecision{api::Precision::kFloat32, DType::kFloat32, 1e-4},
    TrainedPrecision{api::Precision::kBFloat16, DType::kBFloat16, 2e-2},
    TrainedPrecision{api::Precision::kFloat16, DType::kFloat16, 5e-3}};

SessionOptions OptionsOf(api::Precision precision, int threads) {
  SessionOptions options{.training = SyntheticTraining("core-cnn", kTrainedBatch,
                                                       {.train_examples = 64, .test_examples = 8}),
                         .threads = threads};
  options.training.steps = kTrainedSteps;
  options.training.precision = precision;
  return options;
}

struct Trained {
  std::vector<float> losses;  // of the steps, per sample
  std::vector<float> parameters;
  bool has_recorded = false;
};

absl::StatusOr<Trained> Train(const SessionOptions& options, std::unique_ptr<Backend> backend) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto training, SoloTraining::Create(options, std::move(backend)));
  Trained trained;
  for (int step = 0; step < kTrainedSteps; ++step) {
    LOCKSTEP_ASSIGN_OR_RETURN(const StepTotals totals, training->Step());
    trained.losses.push_back(static_cast<float>(totals.loss / totals.examples));
  }
  Session& session = training->session();
  trained.parameters = Download(session.backend(), session.model().parameters());
  trained.has_recorded = session.recorder().has_recorded();
  return trained;
}

absl::StatusOr<Trained> TrainOn(const BackendFactory& make_backend, const SessionOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto backend, make_backend());
  return Train(options, std::move(backend));
}

void CheckLosses(const absl::StatusOr<Trained>& expected, const BackendFactory& make_backend,
                 const SessionOptions& options, CheckCase& result) {
  const auto found = TrainOn(make_backend, options);
  for (const auto* trained : {&expected, &found}) {
    if (!trained->ok()) return result.Fail(std::string(trained->status().message()));
  }
  for (std::size_t step = 0; step < found->losses.size(); ++step) {
    result.Close(fmt::format("loss of step {}", step + 1), std::array{found->losses[step]},
                 std::array{expected->losses[step]});
  }
}

std::string Input() {
  return fmt::format("batch {}, {} steps", kTrainedBatch, kTrainedSteps);
}

}  // namespace

std::vector<CheckGroup> CheckTraining(const BackendFactory& make_backend, int threads) {
  using Expected = std::future<absl::StatusOr<Trained>>;
  std::vector<Expected> expected;
  for (const TrainedPrecision& trained : kTrainedPrecisions) {
    expected.push_back(std::async(std::launch::async, [&trained] {
      return Train(OptionsOf(trained.precision, 1), MakeBackend({.name = "reference"}));
    }));
  }
  std::vector<CheckGroup> groups;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TrainedPrecision& trained = kTrainedPrecisions[i];
    CheckGroup& group = groups.emplace_back(CheckGroup{.name = "training",
                                                       .type = std::string(DTypeName(trained.type)),
                                                       .tolerance = trained.tolerance});
    CheckCase result(group, "core-cnn", Input());
    const absl::StatusOr<Trained> by_reference = expected[i].get();
    result.Run([&] {
      CheckLosses(by_reference, make_backend, OptionsOf(trained.precision, threads), result);
    });
  }
  return groups;
}

std::vector<CheckGroup> CheckRecordedSteps(const BackendFactory& make_backend, int threads) {
  std::vector<CheckGroup> groups;
  for (const TrainedPrecision& trained : kTrainedPrecisions) {
    CheckGroup group{.name = "recorded steps", .type = std::string(DTypeName(trained.type))};
    CheckCase result(group, "core-cnn", Input());
    bool has_recorded = false;
    result.Run([&] {
      SessionOptions options = OptionsOf(trained.precision, threads);
      const auto recorded = TrainOn(make_backend, options);
      options.records_steps = false;
      const auto queued = TrainOn(make_backend, options);
      for (const auto* found : {&recorded, &queued}) {
        if (!found->ok()) return result.Fail(std::string(found->status().message()));
      }
      has_recorded = recorded->has_recorded;
      result.Same("the losses", recorded->losses, queued->losses);
      result.Same("the parameters", recorded->parameters, queued->parameters);
    });
    if (has_recorded || !group.faults.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace lockstep::train
