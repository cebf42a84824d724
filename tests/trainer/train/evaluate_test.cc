#include "trainer/train/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "api/v1/enum_names.h"
#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

// The evaluation of the initial parameters by one rank.
Evaluation EvaluateInParts(int parts, double label_smoothing = 0) {
  api::TrainingSpec training = SmallTraining();
  training.gradient_accumulation = parts;
  training.label_smoothing = label_smoothing;
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0);
  EXPECT_EQ(rank.session->parts(), parts);
  const auto membership = rank.rendezvous.Join(0, "");
  EXPECT_TRUE(rank.strategy->Connect(*membership, rank.rendezvous.store()).ok());
  int batches = 0;
  const auto evaluated = Evaluate(*rank.session, *rank.strategy, 0, [&] {
    ++batches;
    return std::optional<LoopOutcome>();
  });
  EXPECT_EQ(batches, 3) << "of 16, 16 and 1 samples";
  return std::get<Evaluation>(evaluated);
}

TEST(EvaluateTest, PartsGiveTheEvaluationOfTheWhole) {
  const Evaluation whole = EvaluateInParts(1), parts = EvaluateInParts(3);
  EXPECT_EQ(parts.examples, whole.examples);
  EXPECT_EQ(parts.accuracy, whole.accuracy);
  EXPECT_GT(whole.accuracy, 0);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-6 * whole.loss);
}

struct Layout {
  std::string device = "reference";
  int stages = 1, pipelines = 1;
};

// What each rank finds of the initial parameters.
std::vector<Evaluation> EvaluateOn(const api::TrainingSpec& training, const Layout& layout) {
  const int world = layout.stages * layout.pipelines;
  LocalRendezvousHub hub(world);
  std::vector<Evaluation> found(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (int number = 0; number < world; ++number) {
    threads.emplace_back([&, number] {
      Rank rank(training, world, hub, number, nullptr, layout.device, nullptr,
                RankPlace{.stages = layout.stages});
      const auto membership = rank.rendezvous.Join(0, rank.session->Fingerprint());
      EXPECT_TRUE(rank.strategy->Connect(*membership, rank.rendezvous.store()).ok());
      const auto evaluated = Evaluate(*rank.session, *rank.strategy, number,
                                      [] { return std::optional<LoopOutcome>(); });
      found[static_cast<std::size_t>(number)] = std::get<Evaluation>(evaluated);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

using enum api::TestMetric;

// One training for each kind of loss, with all that it can measure.
std::vector<api::TrainingSpec> TrainingsWithMetrics() {
  api::TrainingSpec classes = SmallTraining(), binary = SmallTraining(), numbers = SmallTraining();
  const auto flat = api::Json::array({{{"type", "Flatten"}},
                                      {{"type", "Dense"}, {"units", 8}, {"activation", "relu"}},
                                      {{"type", "Dense"}, {"units", 1}}});
  classes.evaluation.top_k = 2;
  binary.loss.type = api::LossType::kBinaryCrossentropy;
  binary.dataset.synthetic->classes = 2;
  numbers.loss.type = api::LossType::kMeanSquaredError;
  binary.model.layers = numbers.model.layers = flat;
  std::vector<api::TrainingSpec> all = {classes, binary, numbers};
  for (api::TrainingSpec& training : all) {
    training.evaluation.metrics = api::TestMetricsOf(training.loss.type);
  }
  return all;
}

void ExpectNear(const api::TestMetrics& found, const api::TestMetrics& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [metric, value] : expected) {
    EXPECT_NEAR(found.at(metric), value, tolerance * value) << api::NameOf(metric);
  }
}

TEST(EvaluateTest, AJobThatNamesNoMetricsHasNone) {
  EXPECT_TRUE(EvaluateInParts(1).metrics.empty());
}

TEST(EvaluateTest, MetricsAreOfAllSamplesOnce) {
  for (const api::TrainingSpec& training : TrainingsWithMetrics()) {
    const Evaluation whole = EvaluateOn(training, {})[0];
    ASSERT_EQ(whole.metrics.size(), training.evaluation.metrics.size());
    for (const auto& [metric, value] : whole.metrics) EXPECT_GT(value, 0) << api::NameOf(metric);
    if (whole.metrics.contains(kMeanSquaredError)) {
      EXPECT_NEAR(whole.metrics.at(kMeanSquaredError), whole.loss, 1e-6 * whole.loss);
    }
    if (whole.metrics.contains(kTopKCategoricalAccuracy)) {
      EXPECT_GT(whole.metrics.at(kTopKCategoricalAccuracy), whole.accuracy);
    }
    api::TrainingSpec parts = training;
    parts.gradient_accumulation = 3;
    ExpectNear(EvaluateOn(parts, {})[0].metrics, whole.metrics, 1e-6);
  }
}

TEST(EvaluateTest, AllRanksHaveTheMetricsOfOne) {
  for (const api::TrainingSpec& training : TrainingsWithMetrics()) {
    const api::TestMetrics expected = EvaluateOn(training, {})[0].metrics;
    for (const Layout& layout : {Layout{.pipelines = 2}, Layout{.stages = 2},
                                 Layout{.device = "async-reference", .stages = 2, .pipelines = 2},
                                 Layout{.device = "cuda", .stages = 2}}) {
      for (const Evaluation& rank : EvaluateOn(training, layout)) {
        ExpectNear(rank.metrics, expected, 1e-6);
      }
    }
  }
}

TEST(EvaluateTest, MetricsAreTheSameOnEveryDeviceInEveryPrecision) {
  for (api::TrainingSpec training : TrainingsWithMetrics()) {
    for (const auto precision : {api::Precision::kFloat32, api::Precision::kBFloat16}) {
      training.precision = precision;
      const api::TestMetrics expected = EvaluateOn(training, {})[0].metrics;
      EXPECT_EQ(EvaluateOn(training, {.device = "async-reference"})[0].metrics, expected);
      for (const char* device : {"cpu", "cuda"}) {
        SCOPED_TRACE(device);
        ExpectNear(EvaluateOn(training, {.device = device})[0].metrics, expected, 0.05);
      }
    }
  }
}

TEST(EvaluateTest, LabelsAreNotSmoothed) {
  EXPECT_EQ(EvaluateInParts(1, 0.5).loss, EvaluateInParts(1, 0).loss);
}

Evaluation EvaluateWith(const api::DatasetSpec& dataset) {
  api::TrainingSpec training = SmallTraining();
  training.dataset = dataset;
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0);
  EXPECT_FALSE(rank.session->test_data()->InMemory());
  EXPECT_EQ(rank.session->reading_threads().count, std::max(1, dataset.threads));
  const auto membership = rank.rendezvous.Join(0, "");
  EXPECT_TRUE(rank.strategy->Connect(*membership, rank.rendezvous.store()).ok());
  const auto evaluated =
      Evaluate(*rank.session, *rank.strategy, 0, [] { return std::optional<LoopOutcome>(); });
  return std::get<Evaluation>(evaluated);
}

// Samples that are made on demand take time to read.
api::DatasetSpec Uncached() {
  api::DatasetSpec dataset = SmallTraining().dataset;
  dataset.cache = false;
  dataset.prefetch = 0;
  return dataset;
}

TEST(EvaluateTest, ReadingAheadOnThreadsChangesNothing) {
  api::DatasetSpec dataset = Uncached();
  dataset.prefetch = 2;
  dataset.threads = 3;
  const Evaluation direct = EvaluateWith(Uncached()), ahead = EvaluateWith(dataset);
  EXPECT_EQ(ahead.examples, direct.examples);
  EXPECT_EQ(ahead.accuracy, direct.accuracy);
  EXPECT_EQ(ahead.loss, direct.loss);
}

// Samples that take a moment to read, and on which threads they were read.
class SlowTestSet final : public Dataset {
 public:
  explicit SlowTestSet(std::unique_ptr<Dataset> inner) : inner_(std::move(inner)) {}
  std::int64_t size() const override { return inner_->size(); }
  const Shape& sample_shape() const override { return inner_->sample_shape(); }
  std::int64_t classes() const override { return inner_->classes(); }
  bool InMemory() const override { return false; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index,
                                    std::span<std::uint8_t> sample) const override {
    {
      const std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
    }
    return inner_->Read(index, sample);
  }
  std::set<std::thread::id> threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  const std::unique_ptr<Dataset> inner_;
  mutable std::mutex mutex_;
  mutable std::set<std::thread::id> threads_;
};

TEST(EvaluateTest, OneProcessAloneReadsAheadToo) {
  api::TrainingSpec training = SmallTraining();
  training.dataset = Uncached();
  training.dataset.prefetch = 2;
  const SessionOptions options{.training = training, .world = 1, .backend = "reference"};
  SessionParts parts{.data = *Session::OpenData(options),
                     .backend = MakeBackend({.name = options.backend, .threads = 1})};
  auto slow = std::make_unique<SlowTestSet>(std::move(parts.data.test));
  const SlowTestSet& test = *slow;
  parts.data.test = std::move(slow);
  const auto session = *Session::Assemble(options, std::move(parts));
  const auto evaluated = EvaluateAlone(*session, [] { return false; }, [] {});
  EXPECT_EQ(std::get<std::optional<Evaluation>>(evaluated)->examples, 33);
  EXPECT_FALSE(test.threads().contains(std::this_thread::get_id()));
}

TEST(EvaluateTest, TestImagesAreNotAugmented) {
  api::DatasetSpec dataset = Uncached();
  dataset.augment.emplace().cutout = api::CutoutSpec{8};
  EXPECT_EQ(EvaluateWith(dataset).loss, EvaluateWith(Uncached()).loss);
}

}  // namespace
}  // namespace lockstep::train
