#include "api/v1/variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "api/v1/validate.h"
#include "tests/support/builders.h"

namespace lockstep::api {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Job;
using testing::MnistTraining;
using ::testing::Not;

TrainingSpec With(const Json& variants) {
  TrainingSpec training = MnistTraining();
  training.checkpoint.directory = "/checkpoints";
  training.variants = variants;
  return training;
}

TEST(VariantsTest, AVariantChangesWhatItNamesAndKeepsTheRest) {
  const TrainingSpec training =
      With(Json::array({{{"name", "slow"}, {"optimizer", {{"learningRate", 0.5}}}},
                        {{"epochs", nullptr}, {"steps", 10}}}));
  const TrainingSpec slow = TrainingOfVariant(training, 0).value();
  EXPECT_EQ(slow.optimizer.learning_rate, 0.5);
  EXPECT_EQ(slow.optimizer.name, "Adam");
  EXPECT_EQ(slow.epochs, 2);
  EXPECT_EQ(slow.seed, 1);
  EXPECT_TRUE(slow.variants->empty());
  const TrainingSpec other = TrainingOfVariant(training, 1).value();
  EXPECT_EQ(other.epochs, std::nullopt);
  EXPECT_EQ(other.steps, 10);
}

TEST(VariantsTest, EachHasFoldersOfItsOwn) {
  TrainingSpec training = With(Json::array({{{"name", "a.1"}}, Json::object()}));
  training.summaries.directory = "/logs/";
  EXPECT_EQ(TrainingOfVariant(training, 0)->checkpoint.directory, "/checkpoints/a.1");
  EXPECT_EQ(TrainingOfVariant(training, 0)->summaries.directory, "/logs/a.1");
  EXPECT_EQ(TrainingOfVariant(training, 1)->checkpoint.directory, "/checkpoints/variant-1");
  training.checkpoint.export_to = "/results/model.onnx";
  EXPECT_EQ(TrainingOfVariant(training, 0)->checkpoint.export_to, "/results/a.1/model.onnx");
  EXPECT_EQ(TrainingOfVariant(training, 1)->checkpoint.export_to, "/results/variant-1/model.onnx");
  training.checkpoint = {};
  EXPECT_EQ(TrainingOfVariant(training, 0)->checkpoint.directory, "") << "no checkpoints";
  EXPECT_EQ(TrainingOfVariant(training, 0)->checkpoint.export_to, "") << "no export";
}

TEST(VariantsTest, WithoutVariantsTheSeedsDiffer) {
  const TrainingSpec training = With(Json::array());
  EXPECT_EQ(TrainingOfVariant(training, 0)->seed, 1);
  EXPECT_EQ(TrainingOfVariant(training, 3)->seed, 4);
  EXPECT_EQ(TrainingOfVariant(training, 3)->checkpoint.directory, "/checkpoints/variant-3");
}

TEST(VariantsTest, AProcessWithoutAVariantIsRefused) {
  const TrainingSpec training = With(Json::array({Json::object()}));
  EXPECT_EQ(TrainingOfVariant(training, 1).status().message(),
            "training.variants: found 1 variants, expected one for process 1");
  EXPECT_FALSE(TrainingOfVariant(training, -1).ok());
}

std::vector<std::string> Faults(const Json& variants, int workers = 2, int processes = 1,
                                StrategyType strategy = StrategyType::kIndependent) {
  std::vector<std::string> texts;
  for (const FieldError& error : Validate(Job("sweep")
                                              .Workers(workers)
                                              .Strategy(strategy)
                                              .ProcessesPerPod(processes)
                                              .Training(With(variants))
                                              .BuildWithDefaults())) {
    texts.push_back(error.path + ": " + error.message);
  }
  return texts;
}

TEST(VariantsTest, AValidSweepHasNoFaults) {
  EXPECT_THAT(Faults(Json::array({{{"name", "a"}}, {{"seed", 2}}})), IsEmpty());
  EXPECT_THAT(Faults(Json::array()), IsEmpty());
  EXPECT_THAT(
      Faults(Json::array({{{"name", "a"}}, Json::object(), Json::object(), Json::object()}), 2, 2),
      IsEmpty());
  EXPECT_THAT(Faults(Json::array({{{"batchSize", {{"global", 1}}}}, Json::object()})), IsEmpty())
      << "each has a batch of its own";
}

TEST(VariantsTest, FaultsNameTheVariantAndItsField) {
  EXPECT_THAT(Faults(Json::array({Json::object()})),
              ElementsAre("spec.training.variants: found 1 variants for 2 processes, expected one "
                          "for each: replicas x processesPerPod"));
  EXPECT_THAT(Faults(Json::array({{{"name", "a"}}, {{"name", "a"}}})),
              ElementsAre("spec.training.variants[1].name: found \"a\" a second time, expected "
                          "names to differ"));
  EXPECT_THAT(Faults(Json::array({{{"name", "../up"}}, Json::object()})),
              ElementsAre(HasSubstr("spec.training.variants[0].name: found \"../up\"")));
  EXPECT_THAT(Faults(Json::array({{{"name", ".."}}, Json::object()})),
              ElementsAre(HasSubstr("spec.training.variants[0].name: found \"..\"")));
  EXPECT_THAT(Faults(Json::array({{{"name", 7}}, {{"name", std::string(64, 'a')}}})),
              ElementsAre(HasSubstr("spec.training.variants[1].name: found \"aaa")));
  EXPECT_THAT(Faults(Json::array({{{"optimiser", Json::object()}}, Json::object()})),
              ElementsAre(HasSubstr("spec.training.variants[0].optimiser: ")));
  EXPECT_THAT(Faults(Json::array({{{"epochs", "two"}}, Json::object()})),
              ElementsAre(HasSubstr("spec.training.variants[0].epochs: found \"two\"")));
  EXPECT_THAT(Faults(Json::array({{{"steps", 10}}, Json::object()})),
              ElementsAre(HasSubstr("spec.training.variants[0]: found both epochs and steps")));
  EXPECT_THAT(Faults(Json::array({{{"variants", Json::array()}}, Json::object()})),
              ElementsAre("spec.training.variants[0].variants: found in a variant, expected none"));
  EXPECT_THAT(Faults(Json::array({{{"model", {{"name", "gpt"}}}}, Json::object()})),
              ElementsAre(HasSubstr("spec.training.variants[0].model.name: found \"gpt\"")));
}

TEST(VariantsTest, ANamedModelDoesNotReplaceLayers) {
  TrainingSpec training = With(Json::array(
      {{{"model", {{"name", "mlp"}}}}, {{"model", {{"name", "mlp"}, {"layers", nullptr}}}}}));
  training.model.name.clear();
  training.model.layers = Json::array({{{"type", "Flatten"}}, {{"type", "Dense"}, {"units", 10}}});
  std::vector<FieldError> errors;
  ValidateVariants(Job("sweep")
                       .Workers(2)
                       .Strategy(StrategyType::kIndependent)
                       .Training(training)
                       .BuildWithDefaults(),
                   errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].path, "spec.training.variants[0].model");
  EXPECT_EQ(TrainingOfVariant(training, 1)->model.name, "mlp");
  EXPECT_TRUE(TrainingOfVariant(training, 1)->model.layers->empty());
}

TEST(VariantsTest, OnlyIndependentJobsHaveVariants) {
  EXPECT_THAT(Faults(Json::array({Json::object(), Json::object()}), 2, 1,
                     StrategyType::kMultiWorkerMirrored),
              ElementsAre(HasSubstr("spec.training.variants: found without strategy Independent")));
}

TEST(VariantsTest, TheirNumberIsBounded) {
  EXPECT_THAT(Faults(Json::array(), 257),
              ElementsAre(HasSubstr("found 257 processes in all, expected at most 256")));
  EXPECT_THAT(Faults(Json::array(), 1, 17),
              ElementsAre(HasSubstr("spec.strategy.processesPerPod: found 17, expected at most "
                                    "16")));
}

// What a kubelet keeps of a message.
constexpr std::size_t kMessageBytes = 4096;

// The results of a full pod, with the longest numbers of their own; all else is that of `like`.
std::vector<VariantResult> FullPod(VariantResult like) {
  like.diverged = false;
  like.step = 9'007'199'254'740'991;
  std::vector<VariantResult> results(kMostVariantsPerPod, like);
  for (int i = 0; i < kMostVariantsPerPod; ++i) {
    results[static_cast<std::size_t>(i)].index = kMostVariants - 1 - i;
  }
  return results;
}

TEST(VariantsTest, ThePodsWithTheLongestResultsFitItsMessage) {
  const std::vector<VariantResult> results = FullPod({.loss = -1.234567e-300,
                                                      .accuracy = 0.1234567,
                                                      .test_loss = -1.234567e-300,
                                                      .test_accuracy = 0.1234567});
  const std::string message = ResultsToMessage(results);
  EXPECT_LE(message.size(), kMessageBytes);
  EXPECT_EQ(ResultsFromMessage(message), results);
}

TEST(VariantsTest, APodsNamedMetricsFitItsMessage) {
  constexpr double kLong = 0.12345678901234567, kRounded = 0.1234568;
  for (const LossType loss : {LossType::kSparseCategoricalCrossentropy,
                              LossType::kBinaryCrossentropy, LossType::kMeanSquaredError}) {
    VariantResult like{.loss = kLong, .test_loss = kLong};
    (IsCrossentropy(loss) ? like.accuracy : like.mean_absolute_error) = kLong;
    (IsCrossentropy(loss) ? like.test_accuracy : like.test_mean_absolute_error) = kLong;
    for (const TestMetric metric : TestMetricsOf(loss)) like.test_metrics[metric] = kLong;
    const std::string message = ResultsToMessage(FullPod(like));
    EXPECT_LE(message.size(), kMessageBytes);
    const std::vector<VariantResult> read = ResultsFromMessage(message);
    ASSERT_EQ(read.size(), static_cast<std::size_t>(kMostVariantsPerPod));
    EXPECT_EQ(read[0].loss, kRounded);
    EXPECT_EQ(read[0].test_metrics.size(), TestMetricsOf(loss).size());
    for (const auto& [metric, value] : read[0].test_metrics) EXPECT_EQ(value, kRounded);
  }
}

constexpr double kLongest = -1.234567e-300;

// The longest results, with `metrics`.
std::vector<VariantResult> FullPodWith(const std::map<TestMetric, double>& metrics) {
  return FullPod({.loss = kLongest,
                  .test_loss = kLongest,
                  .mean_absolute_error = kLongest,
                  .test_mean_absolute_error = kLongest,
                  .test_metrics = metrics});
}

TEST(VariantsTest, MetricsThatDoNotFitAreLeftOutFromTheEnd) {
  const std::vector<VariantResult> whole =
      FullPodWith({{TestMetric::kMeanSquaredError, kLongest},
                   {TestMetric::kRootMeanSquaredError, kLongest},
                   {TestMetric::kAuc, kLongest}});
  const std::string message = ResultsToMessage(whole);
  EXPECT_LE(message.size(), kMessageBytes);
  const std::vector<VariantResult> read = ResultsFromMessage(message);
  ASSERT_EQ(read.size(), whole.size());
  EXPECT_EQ(read.front(), whole.front());
  EXPECT_EQ(read.back(), FullPodWith({}).back());
}

// In a pod of more than three containers, also in the middle of a number.
TEST(VariantsTest, OfAMessageThatWasCutWhatIsWholeIsRead) {
  const std::vector<VariantResult> whole = FullPodWith({{TestMetric::kMeanSquaredError, kLongest}});
  const std::vector<VariantResult> bare = FullPodWith({});
  const std::string message = ResultsToMessage(whole);
  EXPECT_EQ(ResultsFromMessage(message), whole);
  const std::size_t end_of_results = message.find(']');
  for (std::size_t bytes = message.size() - 1; bytes > message.find('}'); bytes -= 7) {
    const std::vector<VariantResult> read = ResultsFromMessage(message.substr(0, bytes));
    if (bytes > end_of_results) {
      ASSERT_EQ(read.size(), whole.size()) << bytes;
    }
    ASSERT_THAT(read, Not(IsEmpty())) << bytes;
    for (std::size_t i = 0; i < read.size(); ++i) {
      ASSERT_THAT(read[i], AnyOf(whole[i], bare[i])) << bytes;
    }
  }
  EXPECT_EQ(ResultsFromMessage(message.substr(0, message.size() - 1)), whole);
  EXPECT_LE(end_of_results, 12'288U / 4) << "the share of one of four containers";
}

TEST(VariantsTest, AnythingElseIsNoResult) {
  EXPECT_THAT(ResultsFromMessage(""), IsEmpty());
  EXPECT_THAT(ResultsFromMessage("killed"), IsEmpty());
  EXPECT_THAT(ResultsFromMessage("{\"step\":3}"), IsEmpty());
  EXPECT_THAT(ResultsFromMessage("{\"variants\":[{\"index\":1"), IsEmpty());
  EXPECT_THAT(
      ResultsFromMessage("{\"variants\":[{\"index\":1}],\"testMetrics\":[{\"AUC\":\"a\"}]}"),
      IsEmpty());
  EXPECT_THAT(ResultsFromMessage("{\"variants\":[{\"index\":-1}]}"), IsEmpty());
  EXPECT_THAT(ResultsFromMessage("{\"variants\":[{\"index\":256}]}"), IsEmpty());
  EXPECT_THAT(ResultsFromMessage("{\"variants\":[{\"index\":1,\"step\":1e99}]}"), IsEmpty());
  EXPECT_THAT(ResultsFromMessage("{\"variants\":[{\"name\":\"" + std::string(64, 'a') + "\"}]}"),
              IsEmpty());
}

TEST(VariantsTest, ValuesThatAreNotFiniteAreLeftOut) {
  const auto results = ResultsFromMessage(ResultsToMessage({{.index = 2, .loss = NAN}}));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].loss, std::nullopt);
}

}  // namespace
}  // namespace lockstep::api
