#include "api/v1/defaults.h"

#include <gtest/gtest.h>

#include "tests/support/builders.h"

namespace lockstep::api {
namespace {

using lockstep::testing::Job;
using lockstep::testing::JobBuilder;
using lockstep::testing::Template;

Json GpuTemplate(const Json& gpus) {
  Json tmpl = Template();
  tmpl["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = gpus;
  return tmpl;
}

TEST(DefaultsTest, TrainingWithoutStrategyIsMultiWorkerMirrored) {
  const TrainingJob job = WithDefaults(Job("mnist").Workers(2).Training().Build());
  ASSERT_TRUE(job.spec.strategy.has_value());
  EXPECT_EQ(job.spec.strategy->type, StrategyType::kMultiWorkerMirrored);
  EXPECT_EQ(job.spec.strategy->processes_per_pod, 1);
}

TEST(DefaultsTest, TrainingWithPsReplicasIsParameterServer) {
  const TrainingJob job =
      WithDefaults(Job("mnist").Workers(2).ParameterServers(1).Training().Build());
  ASSERT_TRUE(job.spec.strategy.has_value());
  EXPECT_EQ(job.spec.strategy->type, StrategyType::kParameterServer);
  EXPECT_EQ(job.spec.strategy->parameter_server, ParameterServerSpec{});
}

TEST(DefaultsTest, AnOwnImageNeedsNoStrategy) {
  EXPECT_EQ(WithDefaults(Job("torch").Workers(2).Build()).spec.strategy, std::nullopt);
}

TEST(DefaultsTest, RestartScopeFollowsTheTrainer) {
  struct Case {
    const char* name;
    TrainingJob job;
    RestartScope scope;
  };
  const Case cases[] = {
      {"bundled trainer", Job("a").Workers(2).Training().Build(), RestartScope::kInPlace},
      {"own image", Job("a").Workers(2).Build(), RestartScope::kGang},
      {"own image with PS", Job("a").Workers(2).ParameterServers(1).Build(), RestartScope::kPod},
      {"own image, ParameterServer",
       Job("a").Workers(2).ParameterServers(1).Strategy(StrategyType::kParameterServer).Build(),
       RestartScope::kPod},
      {"own image, Independent", Job("a").Workers(2).Strategy(StrategyType::kIndependent).Build(),
       RestartScope::kPod},
      {"bundled trainer, Independent",
       Job("a").Workers(2).Training().Strategy(StrategyType::kIndependent).Build(),
       RestartScope::kInPlace},
      {"said by the user", Job("a").Workers(2).RestartScope(RestartScope::kPod).Build(),
       RestartScope::kPod},
  };
  for (const Case& c : cases) EXPECT_EQ(WithDefaults(c.job).spec.restart_scope, c.scope) << c.name;
}

TEST(DefaultsTest, IndependentSucceedsWithAllWorkers) {
  EXPECT_EQ(WithDefaults(Job("a").Workers(2).Strategy(StrategyType::kIndependent).Build())
                .spec.success_policy,
            SuccessPolicy::kAllWorkers);
  EXPECT_EQ(WithDefaults(Job("a").Workers(2).Build()).spec.success_policy,
            SuccessPolicy::kChiefOrWorker0);
}

TEST(DefaultsTest, ExitCodesSayWhatIsRetriedOfTheBundledTrainerOnly) {
  const auto given =
      Job("a").Chief().Workers(2).RestartPolicy(Role::kWorker, RestartPolicy::kNever);
  const auto chief_of = [](const TrainingJob& job) {
    return WithDefaults(job).spec.replica_specs.at(Role::kChief).restart_policy;
  };
  EXPECT_EQ(chief_of(JobBuilder(given).Training().Build()), RestartPolicy::kExitCode);
  EXPECT_EQ(chief_of(given.Build()), RestartPolicy::kOnFailure);
  const TrainingJob job = WithDefaults(given.Build());
  EXPECT_EQ(job.spec.replica_specs.at(Role::kWorker).restart_policy, RestartPolicy::kNever);
}

TEST(DefaultsTest, OneProcessForEachGpuOfAWorker) {
  struct Case {
    Json gpus;
    int processes;
  };
  const Case cases[] = {{"4", 4}, {2, 2}, {"0", 1}, {"many", 1}, {-3, 1}, {nullptr, 1}};
  for (const Case& c : cases) {
    TrainingJob job = Job("a")
                          .Workers(1)
                          .Training()
                          .Strategy(StrategyType::kMirrored)
                          .PodTemplate(Role::kWorker, GpuTemplate(c.gpus))
                          .Build();
    EXPECT_EQ(WithDefaults(job).spec.strategy->processes_per_pod, c.processes) << c.gpus;
    job.spec.training.reset();
    EXPECT_EQ(WithDefaults(job).spec.strategy->processes_per_pod, std::nullopt)
        << "the program knows";
  }
}

TEST(DefaultsTest, TemplatesOfAnyShapeAreReadWithoutHarm) {
  for (const Json& tmpl : {Json::object(), Json{{"spec", 3}}, Json{{"spec", {{"containers", "x"}}}},
                           Json{{"spec", {{"containers", {1, nullptr}}}}}}) {
    const TrainingJob job = Job("a").Workers(1).Training().PodTemplate(Role::kWorker, tmpl).Build();
    EXPECT_EQ(WithDefaults(job).spec.strategy->processes_per_pod, 1) << tmpl;
  }
}

TEST(DefaultsTest, SyntheticDataHasAShape) {
  TrainingSpec training = lockstep::testing::MnistTraining();
  training.dataset = {};
  training.dataset.format = DatasetFormat::kSynthetic;
  const TrainingJob job = WithDefaults(Job("a").Workers(1).Training(training).Build());
  EXPECT_EQ(job.spec.training->dataset.synthetic, SyntheticSpec{});
}

TEST(DefaultsTest, ASecondTimeChangesNothing) {
  for (const TrainingJob& job :
       {Job("a").Workers(2).Training().Build(), Job("a").Workers(2).ParameterServers(1).Build(),
        Job("a").Workers(3).Strategy(StrategyType::kIndependent).Build()}) {
    EXPECT_EQ(WithDefaults(WithDefaults(job)), WithDefaults(job));
  }
}

}  // namespace
}  // namespace lockstep::api
