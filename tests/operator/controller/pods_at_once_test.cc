#include "operator/controller/pods_at_once.h"

#include <gtest/gtest.h>

#include "tests/support/builders.h"

namespace lockstep::controller {
namespace {

using testing::Job;

std::size_t AtOnce(const testing::JobBuilder& job) {
  return PodsAtOnce(job.BuildWithDefaults(), 8);
}

testing::JobBuilder WithArgs(const std::vector<std::string>& args) {
  api::Json pod_template = testing::Template("pytorch");
  pod_template["spec"]["containers"][0]["args"] = args;
  return Job("j").Workers(100).PodTemplate(api::Role::kWorker, pod_template);
}

TEST(PodsAtOnceTest, UsualPodsAreCreatedAsManyAtATimeAsIsAllowed) {
  EXPECT_EQ(AtOnce(Job("j").Workers(4)), 8U);
  EXPECT_EQ(AtOnce(Job("j").Workers(1000).Training()), 8U);
  EXPECT_EQ(AtOnce(Job("j").Workers(1000)), 8U) << "with TF_CONFIG";
  EXPECT_EQ(AtOnce(WithArgs({std::string(15'000, 'x')})), 8U);
  EXPECT_EQ(PodsAtOnce(Job("j").Workers(4).Build(), 1), 1U);
}

TEST(PodsAtOnceTest, LargePodsAreCreatedOneOrTwoAtATime) {
  EXPECT_EQ(AtOnce(WithArgs({std::string(250'000, 'x')})), 1U);
  EXPECT_EQ(AtOnce(WithArgs(std::vector<std::string>(16'000, "<"))), 2U);
  api::Json crowded = testing::Template("mine");
  for (int i = 1; i < 256; ++i) {
    crowded["spec"]["containers"].push_back({{"name", "c" + std::to_string(i)}});
  }
  EXPECT_EQ(AtOnce(Job("j").Workers(4).PodTemplate(api::Role::kWorker, crowded)), 1U);
  api::TrainingSpec training = testing::MnistTraining();
  const api::Json layer = {{"type", "Flatten"}, {"name", std::string(100, 'x')}};
  training.model = {.name = "", .layers = api::Json(std::vector<api::Json>(1000, layer))};
  EXPECT_EQ(AtOnce(Job("j").Workers(1).Training(training)), 1U);
}

}  // namespace
}  // namespace lockstep::controller
