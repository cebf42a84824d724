#include "operator/controller/children/kueue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rfc3339.h"
#include "tests/operator/controller/queued_job.h"
#include "tests/support/controller_uid.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::Json;
using api::Role;
using testing::AdmittedStatus;
using testing::Conditions;
using ::testing::ElementsAre;
using testing::kKueue;
using testing::kNow;
using testing::Queued;
using ::testing::SizeIs;

TEST(KueueTest, AWorkloadAsksForEachRolesPods) {
  Json tmpl = testing::Template();
  tmpl["metadata"] = {{"labels", {{"team", "vision"}}}};
  const api::TrainingJob job =
      Queued(4)
          .Chief()
          .PodTemplate(Role::kWorker, tmpl)
          .With([](api::TrainingJob& made) {
            made.spec.elastic = api::ElasticSpec{2, 4};
            made.spec.run_policy.scheduling_policy.emplace().priority_class = "high";
          })
          .BuildWithDefaults();
  const kube::Object workload = BuildWorkload(job, kKueue, 1000);
  EXPECT_EQ(workload.at("apiVersion"), "kueue.x-k8s.io/v1beta2");
  EXPECT_EQ(kube::ControllerUid(workload), "j-uid");
  EXPECT_EQ(kube::Label(workload, "kueue.x-k8s.io/job-uid"), "j-uid");
  const Json& spec = workload.at("spec");
  EXPECT_EQ(spec.at("queueName"), "research");
  EXPECT_EQ(spec.at("priority"), 1000);
  EXPECT_EQ(spec.at("priorityClassRef"),
            (Json{{"group", "scheduling.k8s.io"}, {"kind", "PriorityClass"}, {"name", "high"}}));
  ASSERT_THAT(spec.at("podSets"), SizeIs(2));
  EXPECT_EQ(spec.at("podSets")[0].at("name"), "chief");
  EXPECT_FALSE(spec.at("podSets")[0].contains("minCount"));
  const Json& workers = spec.at("podSets")[1];
  EXPECT_EQ(workers.at("count"), 4);
  EXPECT_EQ(workers.at("minCount"), 2);
  EXPECT_EQ(workers.at("template").at("metadata").at("labels").at("team"), "vision");
  EXPECT_EQ(workers.at("template").at("spec").at("containers")[0].at("name"), "tensorflow");
  EXPECT_EQ(ReadWorkload(workload).templates, TemplatesHash(job));
  EXPECT_EQ(ReadWorkload(workload).counts,
            (std::map<Role, int>{{Role::kChief, 1}, {Role::kWorker, 4}}));
  EXPECT_EQ(ReadWorkload(workload).min_workers, 2);
}

// Kueue's conversion of the two versions (apis/kueue/v1beta1/workload_conversion.go).
TEST(KueueTest, AWorkloadOfTheOlderVersionNamesItsPriorityClassInItsOwnWay) {
  kube::Kind old = kWorkloadKind;
  old.version = "v1beta1";
  const auto labelled = Queued().With(
      [](api::TrainingJob& job) { job.metadata.labels["kueue.x-k8s.io/priority-class"] = "high"; });
  const auto of_pods = Queued().With([](api::TrainingJob& job) {
    job.spec.run_policy.scheduling_policy.emplace().priority_class = "high";
  });
  for (const auto& [job, source] :
       {std::pair(labelled.BuildWithDefaults(), "kueue.x-k8s.io/workloadpriorityclass"),
        std::pair(of_pods.BuildWithDefaults(), "scheduling.k8s.io/priorityclass")}) {
    const kube::Object workload = BuildWorkload(job, kKueue, 7);
    EXPECT_EQ(WorkloadIn(workload, kWorkloadKind), workload);
    const kube::Object older = WorkloadIn(workload, old);
    EXPECT_FALSE(older.at("spec").contains("priorityClassRef"));
    EXPECT_EQ(older.at("spec").at("priorityClassName"), "high");
    EXPECT_EQ(older.at("spec").at("priorityClassSource"), source);
    EXPECT_EQ(older.at("spec").at("priority"), 7);
    EXPECT_EQ(ReadWorkload(older), ReadWorkload(workload)) << "else it would be made anew";
    EXPECT_EQ(ReadWorkload(older).priority_class, "high");
  }
  const kube::Object plain = BuildWorkload(Queued().BuildWithDefaults(), kKueue, std::nullopt);
  EXPECT_EQ(WorkloadIn(plain, old), plain);
}

// As NewWorkload in Kueue's pkg/controller/jobframework.
TEST(KueueTest, AWorkloadHasWhatKueueReadsOfTheJob) {
  const auto job = Queued().With([](api::TrainingJob& made) {
    made.metadata.labels["kueue.x-k8s.io/max-exec-time-seconds"] = "3600";
    made.metadata.annotations = {{"provreq.kueue.x-k8s.io/maxRunDurationSeconds", "600"},
                                 {"team", "vision"}};
  });
  const kube::Object workload = BuildWorkload(job.BuildWithDefaults(), kKueue, std::nullopt);
  const Json& annotations = workload.at("metadata").at("annotations");
  EXPECT_EQ(annotations.at("provreq.kueue.x-k8s.io/maxRunDurationSeconds"), "600");
  EXPECT_FALSE(annotations.contains("team"));
  EXPECT_EQ(workload.at("spec").at("maximumExecutionTimeSeconds"), 3600);
  EXPECT_EQ(ReadWorkload(workload).max_execution_time, "3600");
  const kube::Object plain = BuildWorkload(Queued().BuildWithDefaults(), kKueue, std::nullopt);
  EXPECT_FALSE(plain.at("spec").contains("maximumExecutionTimeSeconds"));
  const auto wrong = Queued().With([](api::TrainingJob& made) {
    made.metadata.labels["kueue.x-k8s.io/max-exec-time-seconds"] = "1h";
  });
  EXPECT_EQ(BuildWorkload(wrong.BuildWithDefaults(), kKueue, std::nullopt)
                .at("spec")
                .at("maximumExecutionTimeSeconds"),
            "1h")
      << "the API server refuses it by name";
}

// It is stored in Workloads: for the same templates to have another hash, kTemplatesScheme must
// change.
TEST(KueueTest, TheTemplatesHashStaysWhatItWas) {
  EXPECT_EQ(TemplatesHash(Queued(2).BuildWithDefaults()),
            "sha256:398f4198e785068231405ce92dd80fe41271b2bb7e5f19339e18aa8a6d313a95");
  EXPECT_EQ(TemplatesHash(Queued(2).Chief().Evaluator(0).BuildWithDefaults()),
            "sha256:bce66e2d70c0acec0af9a000c16b3e5208f90c96838ec42524fa628797d37d71");
  EXPECT_EQ(TemplatesHash(Queued(2).Training().BuildWithDefaults()),
            "sha256:a0742ac4cac2f731be68e2fac3fa2319758108dc40faa55ac9f39270f6e80c16");
}

TEST(KueueTest, AWorkloadPriorityClassComesFirst) {
  const auto job = Queued().With([](api::TrainingJob& made) {
    made.metadata.labels["kueue.x-k8s.io/priority-class"] = "urgent";
    made.spec.run_policy.scheduling_policy.emplace().priority_class = "high";
  });
  const auto reference = PriorityOf(job.Build());
  EXPECT_EQ(reference->kind, kWorkloadPriorityKind);
  EXPECT_EQ(reference->name, "urgent");
  EXPECT_FALSE(PriorityOf(Queued().Build()));
}

TEST(KueueTest, WhatWasGrantedIsReadAndGivenToPods) {
  kube::Object workload = BuildWorkload(Queued().BuildWithDefaults(), kKueue, std::nullopt);
  workload["status"] = AdmittedStatus(2);
  workload["status"]["admissionChecks"] = {
      {{"name", "provision"},
       {"podSetUpdates",
        {{{"name", "worker"},
          {"annotations", {{"provisioned", "yes"}}},
          {"tolerations", {{{"key", "spot"}, {"operator", "Exists"}}}}}}}}};
  ObservedWorkload read = ReadWorkload(workload);
  EXPECT_TRUE(read.admitted && read.reserved && !read.evicted && !read.finished);
  PodSetGrant grant = read.granted.at(Role::kWorker);
  EXPECT_EQ(grant.count, 2);
  EXPECT_THAT(grant.flavors, ElementsAre("gpu"));
  AddFlavor({{"spec",
              {{"nodeLabels", {{"gpu", "h100"}}},
               {"tolerations", {{{"key", "gpu"}, {"operator", "Exists"}}}}}}},
            grant);
  kube::Object pod = {{"metadata", {{"name", "p"}}},
                      {"spec",
                       {{"nodeSelector", {{"zone", "a"}}},
                        {"tolerations", {{{"key", "gpu"}, {"operator", "Exists"}}}}}}};
  ApplyGrant(grant, Queued().Build(), Role::kWorker, pod);
  EXPECT_EQ(pod.at("spec").at("nodeSelector"), (Json{{"zone", "a"}, {"gpu", "h100"}}));
  EXPECT_THAT(pod.at("spec").at("tolerations"), SizeIs(2)) << "none twice";
  EXPECT_EQ(pod.at("metadata").at("annotations").at("provisioned"), "yes");
}

// Returns the topologyRequest of the workers' pod set if their template has these annotations.
Json TopologyRequest(const Json& annotations) {
  Json tmpl = testing::Template();
  tmpl["metadata"] = {{"annotations", annotations}};
  const auto job = Queued().PodTemplate(Role::kWorker, tmpl).BuildWithDefaults();
  return BuildWorkload(job, kKueue, std::nullopt)["spec"]["podSets"][0].value("topologyRequest",
                                                                              Json());
}

TEST(KueueTest, AWorkloadAsksForTheTopologyThatItsTemplatesName) {
  const std::string kueue = "kueue.x-k8s.io/", index = "training.lockstep.dev/replica-index";
  EXPECT_TRUE(TopologyRequest({{"other", "x"}}).is_null());
  EXPECT_EQ(TopologyRequest({{kueue + "podset-required-topology", "rack"},
                             {kueue + "podset-group-name", "all"}}),
            (Json{{"required", "rack"}, {"podSetGroupName", "all"}}));
  EXPECT_EQ(TopologyRequest({{kueue + "podset-preferred-topology", "block"},
                             {kueue + "podset-slice-required-topology", "rack"},
                             {kueue + "podset-slice-size", "4"}}),
            (Json{{"preferred", "block"},
                  {"podSetSliceRequiredTopology", "rack"},
                  {"podSetSliceSize", 4},
                  {"podIndexLabel", index}}));
  for (const char* yes : {"true", "True", "1"}) {
    EXPECT_EQ(TopologyRequest({{kueue + "podset-unconstrained-topology", yes}}),
              (Json{{"unconstrained", true}, {"podIndexLabel", index}}));
  }
  const std::string wrong = kueue + "podset-unconstrained-topology";
  EXPECT_EQ(TopologyRequest({{wrong, "often"}})["unconstrained"], "often")
      << "the API server refuses it by name";
}

TEST(KueueTest, APodWhoseNodesKueueChoosesWaitsForThem) {
  kube::Object workload = BuildWorkload(Queued().BuildWithDefaults(), kKueue, std::nullopt);
  workload["status"] = AdmittedStatus(2);
  Json& assignment = workload["status"]["admission"]["podSetAssignments"][0];
  const auto pod_of = [&](const Json& annotations) {
    const ObservedWorkload read = ReadWorkload(workload);
    kube::Object pod = {{"metadata", {{"annotations", annotations}}}, {"spec", Json::object()}};
    ApplyGrant(read.granted.at(Role::kWorker), Queued().Build(), Role::kWorker, pod);
    return pod;
  };
  EXPECT_FALSE(pod_of(Json::object()).at("spec").contains("schedulingGates"));
  assignment["topologyAssignment"] = {{"levels", {"rack"}},
                                      {"domains", {{{"values", {"r1"}}, {"count", 2}}}}};
  const std::string preferred = "kueue.x-k8s.io/podset-preferred-topology";
  const std::string unconstrained = "kueue.x-k8s.io/podset-unconstrained-topology";
  const kube::Object pod = pod_of({{preferred, "rack"}});
  EXPECT_EQ(pod.at("spec").at("schedulingGates"),
            Json::parse(R"([{"name": "kueue.x-k8s.io/topology"}])"));
  EXPECT_EQ(kube::Label(pod, "kueue.x-k8s.io/podset"), "worker");
  EXPECT_EQ(pod["metadata"]["annotations"],
            (Json{{preferred, "rack"}, {"kueue.x-k8s.io/workload", "trainingjob-j"}}));
  EXPECT_EQ(pod_of(Json::object())["metadata"]["annotations"][unconstrained], "true");
}

TEST(KueueTest, TheNumberOfReclaimableWorkersIsWrittenBesideThoseOfOthers) {
  kube::Object workload;
  workload["status"]["reclaimablePods"] = Json::parse(R"([{"name": "ps", "count": 1}])");
  workload = WithReclaimableWorkers(WithReclaimableWorkers(workload, 1), 2);
  EXPECT_EQ(workload["status"]["reclaimablePods"],
            Json::parse(R"([{"name": "ps", "count": 1}, {"name": "worker", "count": 2}])"));
  EXPECT_EQ(ReadWorkload(workload).reclaimable_workers, 2);
  EXPECT_EQ(ReadWorkload(Released(workload, kNow)).reclaimable_workers, 0);
}

TEST(KueueTest, AReleasedWorkloadHoldsNoQuotaAndQueuesAgain) {
  kube::Object workload = {{"metadata", {{"generation", 3}}}, {"status", AdmittedStatus(2)}};
  workload["status"]["conditions"] =
      Conditions({{"QuotaReserved", true}, {"Admitted", true}, {"Evicted", true}});
  const kube::Object released = Released(workload, kNow);
  EXPECT_FALSE(released.at("status").contains("admission"));
  const ObservedWorkload read = ReadWorkload(released);
  EXPECT_FALSE(read.reserved);
  EXPECT_FALSE(read.admitted);
  EXPECT_TRUE(read.evicted);
  EXPECT_EQ(read.readiness, "WaitForStart");
  const Json& requeued = kube::ConditionOf(released.at("status"), "Requeued");
  EXPECT_EQ(requeued.at("status"), "True");
  EXPECT_EQ(requeued.at("observedGeneration"), 3);
}

TEST(KueueTest, TheTimesOfAllAdmissionsOfAWorkloadAddUp) {
  const auto total_of = [](const char* version, const char* key) {
    kube::Object workload = {{"apiVersion", std::string("kueue.x-k8s.io/") + version},
                             {"status", AdmittedStatus(2)}};
    Time now = kNow;
    for (const int seconds : {100, 30}) {
      Json& admitted = workload["status"]["conditions"][1];
      EXPECT_EQ(admitted.at("type"), "Admitted");
      admitted["status"] = "True";
      admitted["lastTransitionTime"] = FormatApiTime(now);
      now += std::chrono::seconds(seconds);
      workload = Released(workload, now);
      now += std::chrono::hours(1);  // in the queue
      workload = Released(workload, now);
    }
    return kube::IntMember(workload.at("status"), key);
  };
  EXPECT_EQ(total_of("v1beta2", "accumulatedPastExecutionTimeSeconds"), 130);
  EXPECT_EQ(total_of("v1beta1", "accumulatedPastExexcutionTimeSeconds"), 130) << "its spelling";
}

TEST(KueueTest, ATotalOfTimesIsWhatTheServerTakes) {
  kube::Object workload = {{"apiVersion", kWorkloadKind.ApiVersion()},
                           {"status", AdmittedStatus(2)}};
  const char kTotal[] = "accumulatedPastExecutionTimeSeconds";
  Json& since = workload["status"]["conditions"][1]["lastTransitionTime"];
  for (const char* wrong : {"2100-01-01T00:00:00Z", "now"}) {
    since = wrong;
    EXPECT_FALSE(Released(workload, kNow).at("status").contains(kTotal)) << wrong;
  }
  since = "2000-01-01T00:00:00Z";
  const kube::Object over = WithWorkloadCondition(
      workload, "Evicted", true, "DeactivatedDueToMaximumExecutionTimeExceeded", "too long", kNow);
  EXPECT_FALSE(Released(over, kNow).at("status").contains(kTotal)) << "it begins anew";
  kube::Object again = over;
  again["status"][kTotal] = 3000;
  EXPECT_FALSE(Released(again, kNow).at("status").contains(kTotal)) << "Kueue leaves what is ours";
  workload["status"][kTotal] = 2'147'483'000;
  EXPECT_EQ(Released(workload, kNow).at("status").at(kTotal), 2'147'483'647);
}

// As Kueue's job reconciler says of its own kinds.
TEST(KueueTest, WhyAWorkloadWasEvictedDecidesWhetherItQueuesAgainAtOnce) {
  for (const auto& [reason, requeued] :
       {std::pair("Preempted", "True"), std::pair("NodeFailures", "True"),
        std::pair("PodsReadyTimeout", "False"), std::pair("AdmissionCheck", "False"),
        std::pair("ClusterQueueStopped", "False"), std::pair("Deactivated", "False"),
        std::pair("", "False")}) {
    const kube::Object evicted = WithWorkloadCondition({{"status", AdmittedStatus(2)}}, "Evicted",
                                                       true, reason, "why", kNow);
    const kube::Object released = Released(evicted, kNow);
    const kube::Object& condition = kube::ConditionOf(released.at("status"), "Requeued");
    EXPECT_EQ(condition.at("status"), requeued) << reason;
    EXPECT_EQ(condition.at("reason"), reason);
  }
}

TEST(KueueTest, ADeactivatedWorkloadQueuesAgainWhenItIsActivated) {
  for (const auto& [reason, requeued] :
       {std::pair("DeactivatedDueToMaximumExecutionTimeExceeded", "Deactivated"),
        std::pair("DeactivatedDueToRequeuingLimitExceeded", "Deactivated"),
        std::pair("InactiveWorkloadMaximumExecutionTimeExceeded", "InactiveWorkload")}) {
    const kube::Object evicted = WithWorkloadCondition({{"status", AdmittedStatus(2)}}, "Evicted",
                                                       true, reason, "why", kNow);
    const kube::Object released = Released(evicted, kNow);
    const kube::Object& condition = kube::ConditionOf(released.at("status"), "Requeued");
    EXPECT_EQ(condition.at("status"), "False") << reason;
    EXPECT_EQ(condition.at("reason"), requeued);
  }
}

}  // namespace
}  // namespace lockstep::controller
