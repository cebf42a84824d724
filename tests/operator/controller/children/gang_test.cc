#include "operator/controller/children/gang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/children/build_pod.h"
#include "tests/support/controller_uid.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Json;
using api::Role;
using testing::Exited;
using testing::Job;
using testing::kReady;
using testing::Seen;
using ::testing::UnorderedElementsAre;

const Settings kVolcano{.gang_scheduler_name = "volcano"};
const Settings kPlugins{.gang_scheduler_name = "scheduler-plugins"};

Json TemplateAsking(const Json& requests, const Json& limits = Json::object()) {
  Json pod = testing::Template();
  pod["spec"]["containers"][0]["resources"] = {{"requests", requests}, {"limits", limits}};
  return pod;
}

TEST(GangTest, VolcanosPodGroupCarriesTheWholePolicy) {
  const api::TrainingJob job =
      Job("j")
          .Workers(3)
          .Chief()
          .PodTemplate(Role::kWorker, TemplateAsking({{"cpu", "500m"}, {"memory", "1Gi"}}))
          .PodTemplate(Role::kChief, TemplateAsking({{"cpu", 1}}, {{"nvidia.com/gpu", 2}}))
          .With([](api::TrainingJob& made) {
            auto& policy = made.spec.run_policy.scheduling_policy.emplace();
            policy.queue = "research";
            policy.priority_class = "high";
            policy.schedule_timeout_seconds = 60;
          })
          .BuildWithDefaults();
  const kube::Object group = BuildPodGroup(job, kVolcano);
  EXPECT_EQ(group.at("apiVersion"), "scheduling.volcano.sh/v1beta1");
  EXPECT_EQ(group.at("metadata").at("name"), "j");
  EXPECT_EQ(kube::ControllerUid(group), "j-uid");
  EXPECT_EQ(group.at("spec"),
            (Json{{"minMember", 4},
                  {"queue", "research"},
                  {"priorityClassName", "high"},
                  {"minResources",
                   {{"cpu", "2500m"}, {"memory", "3221225472"}, {"nvidia.com/gpu", "2"}}}}));
}

TEST(GangTest, ARoleThatWaitsForOthersIsCountedOnceItsTimeHasCome) {
  api::TrainingJob job =
      Job("j")
          .ParameterServers(2)
          .Workers(3)
          .PodTemplate(Role::kParameterServer, TemplateAsking({{"cpu", 1}}))
          .PodTemplate(Role::kWorker, TemplateAsking({{"cpu", 4}}))
          .DependsOn(Role::kWorker, Role::kParameterServer, api::DependencyStatus::kReady)
          .BuildWithDefaults();
  const auto spec = [&job] { return BuildPodGroup(job, kVolcano).at("spec"); };
  EXPECT_EQ(spec(), (Json{{"minMember", 2}, {"minResources", {{"cpu", "2"}}}}));
  job.spec.run_policy.scheduling_policy.emplace().min_available = 5;
  EXPECT_EQ(spec().at("minMember"), 2) << "more do not exist yet";
  job.status.started_roles = {Role::kWorker};
  EXPECT_EQ(spec().at("minMember"), 5);
  EXPECT_EQ(spec().at("minResources"), (Json{{"cpu", "14"}}));
}

TEST(GangTest, SchedulerPluginsPodGroupHasATimeoutAndNoQueue) {
  const api::TrainingJob job = Job("j")
                                   .Workers(2)
                                   .With([](api::TrainingJob& made) {
                                     auto& policy =
                                         made.spec.run_policy.scheduling_policy.emplace();
                                     policy.queue = "research";
                                     policy.schedule_timeout_seconds = 60;
                                     policy.min_resources = {{"cpu", "8"}};
                                   })
                                   .BuildWithDefaults();
  const kube::Object group = BuildPodGroup(job, kPlugins);
  EXPECT_EQ(group.at("apiVersion"), "scheduling.x-k8s.io/v1alpha1");
  EXPECT_EQ(
      group.at("spec"),
      (Json{{"minMember", 2}, {"scheduleTimeoutSeconds", 60}, {"minResources", {{"cpu", "8"}}}}));
}

TEST(GangTest, WhatAPodGroupIsGivenIsSeenOfIt) {
  const api::TrainingJob job = Job("j")
                                   .Workers(2)
                                   .With([](api::TrainingJob& made) {
                                     auto& policy =
                                         made.spec.run_policy.scheduling_policy.emplace();
                                     policy.queue = "research";
                                     policy.priority_class = "high";
                                     policy.schedule_timeout_seconds = 60;
                                     policy.min_resources = {{"cpu", "8"}};
                                   })
                                   .BuildWithDefaults();
  for (const Settings& settings : {kVolcano, kPlugins}) {
    const kube::Object group = BuildPodGroup(job, settings);
    EXPECT_EQ(ReadPodGroup(group).size(), group.at("spec").size() + 1) << group;
  }
}

TEST(GangTest, MinMemberIsThoseWhoMustBeUp) {
  struct Case {
    const char* name;
    testing::JobBuilder job;
    int expected;
  };
  const auto elastic = Job("j").Workers(4).ElasticTorch(2, 8);
  const auto bounds = [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{2, 8}; };
  const auto available = [](api::TrainingJob& job) {
    job.spec.run_policy.scheduling_policy.emplace().min_available = 3;
  };
  const auto one_done = [](api::TrainingJob& job) { job.status.completed_indexes = {1}; };
  const auto required_done = [](api::TrainingJob& job) { job.status.completed_indexes = {0, 1}; };
  const Case cases[] = {
      {"all", Job("j").Chief().Workers(2).ParameterServers(2), 5},
      {"without the evaluator", Job("j").Workers(2).Evaluator(), 2},
      {"torchrun's minimum", elastic, 2},
      {"the bundled trainer starts with all", Job("j").Workers(4).Training().With(bounds), 4},
      {"what the user says", Job("j").Workers(4).With(available), 3},
      {"without those that are done", Job("j").Workers(4).With(one_done), 3},
      {"the optional ones alone", testing::JobBuilder(elastic).With(required_done), 1},
      {"what the user says, of those that are not done",
       Job("j").Workers(3).With(available).With(one_done), 2},
      {"independent replicas wait for nobody",
       Job("j").Workers(4).Strategy(api::StrategyType::kIndependent), 1},
  };
  for (const Case& c : cases) {
    const auto group = BuildPodGroup(c.job.BuildWithDefaults(), kVolcano);
    EXPECT_EQ(group.at("spec").at("minMember"), c.expected) << c.name;
    EXPECT_FALSE(group.at("spec").contains("minResources")) << c.name;
  }
}

// Schedulers that do not see their pods would wait for them in vain.
TEST(GangTest, HelpersThatHaveSucceededAreNotWaitedFor) {
  for (const std::vector<int>& ended : {std::vector<int>{}, {1}, {0, 1}}) {
    const auto job = Job("j")
                         .Workers(3)
                         .ParameterServers(2)
                         .With([&ended](api::TrainingJob& made) {
                           made.spec.replica_specs[Role::kWorker].depends_on = {
                               {Role::kParameterServer, api::DependencyStatus::kReady}};
                           made.status.started_roles = {Role::kWorker};
                           made.status.completed_helpers = ended;
                         })
                         .BuildWithDefaults();
    for (const Settings& settings : {kVolcano, kPlugins}) {
      EXPECT_EQ(BuildPodGroup(job, settings).at("spec").at("minMember"), 5 - std::ssize(ended));
    }
  }
}

TEST(GangTest, WhatAGangAsksForIsWhatSoManyOfItsPodsRequest) {
  const auto available = [](api::TrainingJob& job) {
    job.spec.run_policy.scheduling_policy.emplace().min_available = 3;
  };
  Json tmpl = TemplateAsking({{"cpu", "1"}});
  tmpl["spec"]["containers"][0]["name"] = "pytorch";
  auto elastic = Job("j").Workers(8).ElasticTorch(2, 8).PodTemplate(Role::kWorker, tmpl);
  const auto cpus = [&elastic] {
    return BuildPodGroup(elastic.BuildWithDefaults(), kVolcano).at("spec").at("minResources");
  };
  EXPECT_EQ(cpus().at("cpu"), "2");
  elastic.With(available);
  EXPECT_EQ(cpus().at("cpu"), "3") << "one of them is optional";
  Json small = TemplateAsking({{"cpu", "500m"}});
  elastic.Evaluator().PodTemplate(Role::kEvaluator, small).ParameterServers(1);
  elastic.PodTemplate(Role::kParameterServer, small);
  EXPECT_EQ(cpus().at("cpu"), "2500m") << "two workers and the server, which is required";
}

TEST(GangTest, PodsNameTheirGroupAndScheduler) {
  const api::TrainingJob job = Job("j").Workers(1).BuildWithDefaults();
  const auto pod = [&job](const Settings& settings) {
    return BuildPod(ClusterSpec(job, DnsAddresses()), settings, {Role::kWorker, 0}, 0);
  };
  const kube::Object volcano = pod(kVolcano);
  EXPECT_EQ(volcano.at("spec").at("schedulerName"), "volcano");
  EXPECT_EQ(volcano.at("metadata").at("annotations").at("scheduling.k8s.io/group-name"), "j");
  const kube::Object plugins = pod(kPlugins);
  EXPECT_EQ(plugins.at("spec").at("schedulerName"), "scheduler-plugins-scheduler");
  EXPECT_EQ(kube::Label(plugins, "scheduling.x-k8s.io/pod-group"), "j");
  EXPECT_EQ(pod({.gang_scheduler_name = "default-scheduler"}).at("spec").at("schedulerName"),
            "default-scheduler");
  EXPECT_FALSE(pod({}).at("spec").contains("schedulerName"));
}

// A group counts its pods, so an Evaluator would take a required member's place.
TEST(GangTest, AnEvaluatorIsScheduledByItself) {
  const api::TrainingJob job = Job("j").Workers(2).Evaluator().BuildWithDefaults();
  for (const Settings& settings : {kVolcano, kPlugins}) {
    const auto pod = BuildPod(ClusterSpec(job, DnsAddresses()), settings, {Role::kEvaluator, 0}, 0);
    const Json annotations = pod.at("metadata").value("annotations", Json::object());
    EXPECT_FALSE(annotations.contains("scheduling.k8s.io/group-name"));
    EXPECT_EQ(kube::Label(pod, "scheduling.x-k8s.io/pod-group"), "");
    EXPECT_TRUE(pod.at("spec").contains("schedulerName"))
        << "two schedulers would give the same room away";
  }
}

TEST(GangTest, AnEvaluatorIsNoneOfThoseThatStartTogether) {
  api::TrainingJob job = Job("j").Workers(2).Evaluator().BuildWithDefaults();
  api::SchedulingPolicySpec policy;
  policy.min_available = 3;
  policy.queue = "team-a";
  job.spec.run_policy.scheduling_policy = policy;
  EXPECT_EQ(BuildPodGroup(job, kVolcano).at("spec").at("minMember"), 2) << "there is no third";
  const auto pod = BuildPod(ClusterSpec(job, DnsAddresses()), kVolcano, {Role::kEvaluator, 0}, 0);
  EXPECT_EQ(pod.at("metadata").at("annotations").at("scheduling.volcano.sh/queue-name"), "team-a");
}

TEST(GangTest, ATemplatesOwnSchedulerStays) {
  Json tmpl = testing::Template();
  tmpl["spec"]["schedulerName"] = "mine";
  const api::TrainingJob job =
      Job("j").Workers(1).PodTemplate(Role::kWorker, tmpl).BuildWithDefaults();
  const auto pod = BuildPod(ClusterSpec(job, DnsAddresses()), kVolcano, {Role::kWorker, 0}, 0);
  EXPECT_EQ(pod.at("spec").at("schedulerName"), "mine");
}

}  // namespace
}  // namespace lockstep::controller
