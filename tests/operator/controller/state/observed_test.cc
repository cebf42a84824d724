#include "operator/controller/state/observed.h"

#include <gtest/gtest.h>

#include <limits>

#include "api/v1/names.h"
#include "base/rfc3339.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/rules/make_plan.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/kinds.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/object_protobuf.h"
#include "tests/support/builders.h"

namespace lockstep::controller {
namespace {

using kube::Object;
using std::chrono::seconds;
using testing::Job;

Object ExitOf(int code) {
  return {{"terminated",
           {{"exitCode", code},
            {"reason", "Error"},
            {"message", "oops"},
            {"startedAt", "2026-01-01T00:00:00Z"},
            {"finishedAt", "2026-01-01T00:00:10Z"}}}};
}

// A pod with a main container and a sidecar that never ends.
Object PodWith(const std::string& restart_policy, const std::string& phase, const Object& state) {
  Object pod = BuildPod(ClusterSpec(Job("j").Workers(1).BuildWithDefaults(), DnsAddresses()), {},
                        {api::Role::kWorker, 0}, 1);
  pod["spec"]["restartPolicy"] = restart_policy;
  pod["spec"]["containers"].insert(pod["spec"]["containers"].begin(), Object{{"name", "sidecar"}});
  pod["status"] = {{"phase", phase},
                   {"podIP", "10.0.0.1"},
                   {"containerStatuses",
                    {{{"name", "sidecar"}, {"state", {{"running", Object::object()}}}},
                     {{"name", "tensorflow"}, {"restartCount", 2}, {"state", state}}}}};
  return pod;
}

TEST(ObservedTest, ReadsWhoAPodIs) {
  const auto pod = ObservePod(PodWith("Never", "Running", Object::object()));
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->name, "j-worker-0");
  EXPECT_EQ(pod->role, api::Role::kWorker);
  EXPECT_EQ(pod->index, 0);
  EXPECT_EQ(pod->attempt, 1);
  EXPECT_EQ(pod->ip, "10.0.0.1");
  EXPECT_EQ(pod->restart_count, 2);
  EXPECT_TRUE(IsActive(*pod));
}

// A tenant may write its pods' status, and the counts of a job's pods are added up.
TEST(ObservedTest, RestartsThatNoKubeletHasCountedAreBounded) {
  for (const auto& [written, expected] : {std::pair(2147483647, 100'000), std::pair(-5, 0)}) {
    Object object = PodWith("Never", "Running", Object::object());
    object["status"]["containerStatuses"][1]["restartCount"] = written;
    const auto pod = ObservePod(object);
    ASSERT_TRUE(pod);
    EXPECT_EQ(pod->restart_count, expected);
  }
}

TEST(ObservedTest, ReadsTheResultsOfIndependentProcesses) {
  Object state = ExitOf(0);
  state["terminated"]["message"] = R"({"variants":[{"index":1,"step":3,"loss":0.25}]})";
  const auto pod = ObservePod(PodWith("Never", "Succeeded", state));
  ASSERT_TRUE(pod && pod->termination);
  ASSERT_EQ(pod->termination->results.size(), 1U);
  EXPECT_EQ(pod->termination->results[0].loss, 0.25);
  EXPECT_EQ(pod->termination->message, "") << "not readable for people";
}

TEST(ObservedTest, TheMainContainersExitIsThePodsOutcomeWhateverSidecarsDo) {
  EXPECT_TRUE(PodSucceeded(*ObservePod(PodWith("Never", "Running", ExitOf(0)))));
  const auto failed = ObservePod(PodWith("Never", "Running", ExitOf(137)));
  EXPECT_TRUE(PodFailed(*failed));
  EXPECT_EQ(failed->termination->exit_code, 137);
  EXPECT_EQ(failed->termination->message, "oops");
  EXPECT_TRUE(failed->termination->finished_at);
  // The sidecar's failure made the phase; the program had ended well.
  EXPECT_TRUE(PodSucceeded(*ObservePod(PodWith("Never", "Failed", ExitOf(0)))));
}

TEST(ObservedTest, WhoIsToldToEndByItsNodeHasNotFinished) {
  for (const char* reason : {"DeadlineExceeded", "Evicted", "Terminated"}) {
    Object object = PodWith("Never", "Failed", ExitOf(0));
    object["status"]["reason"] = reason;
    auto pod = ObservePod(object);
    EXPECT_TRUE(PodFailed(*pod)) << reason;
    EXPECT_FALSE(ProgramSucceeded(*pod)) << reason;
    pod->succeeded_since = Time();  // its sidecar has run since
    EXPECT_TRUE(PodSucceeded(*pod)) << reason;
  }
}

TEST(ObservedTest, ATrainersLastReportIsItsProgressAndNoMessage) {
  Object state = ExitOf(0);
  state["terminated"]["message"] = R"({"step":938,"testAccuracy":0.98})";
  const auto pod = ObservePod(PodWith("Never", "Succeeded", state));
  ASSERT_TRUE(pod->termination->progress);
  EXPECT_EQ(pod->termination->progress->step, 938);
  EXPECT_EQ(pod->termination->progress->test_accuracy, 0.98);
  EXPECT_EQ(pod->termination->message, "");
  EXPECT_FALSE(ObservePod(PodWith("Never", "Failed", ExitOf(1)))->termination->progress);
}

TEST(ObservedTest, AMessageThatTellsMoreThanProgressIsKept) {
  Object state = ExitOf(1);
  state["terminated"]["message"] = R"({"step":938,"error":"loss is NaN"})";
  const auto pod = ObservePod(PodWith("Never", "Failed", state));
  ASSERT_TRUE(pod->termination->progress);
  EXPECT_EQ(pod->termination->progress->step, 938);
  EXPECT_EQ(pod->termination->message, R"({"step":938,"error":"loss is NaN"})");
}

TEST(ObservedTest, AnEndThatTheKubeletUndoesIsNone) {
  EXPECT_TRUE(IsActive(*ObservePod(PodWith("OnFailure", "Running", ExitOf(1)))));
  EXPECT_TRUE(IsActive(*ObservePod(PodWith("Always", "Running", ExitOf(0)))));
  EXPECT_TRUE(PodSucceeded(*ObservePod(PodWith("OnFailure", "Running", ExitOf(0)))));
}

TEST(ObservedTest, ReadinessAndDisruptionAreConditions) {
  Object pod = PodWith("Never", "Running", Object::object());
  pod["status"]["conditions"] = {{{"type", "Ready"}, {"status", "True"}},
                                 {{"type", "DisruptionTarget"}, {"status", "True"}}};
  EXPECT_TRUE(ObservePod(pod)->ready);
  EXPECT_TRUE(ObservePod(pod)->disruption_target);
}

// A pod of which a node controller, a scheduler and a kubelet have all had their say.
Object TroubledPod() {
  Object pod = PodWith("OnFailure", "Running",
                       {{"waiting", {{"reason", "CrashLoopBackOff"}, {"message", "back-off 5m"}}}});
  pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z";
  pod["metadata"]["deletionGracePeriodSeconds"] = 30;
  Object& status = pod["status"];
  status["containerStatuses"][1]["lastState"] = ExitOf(139);
  status["conditions"] = {
      {{"type", "Ready"},
       {"status", "Unknown"},
       {"reason", "NodeStatusUnknown"},
       {"lastTransitionTime", "2026-01-01T00:00:20Z"}},
      {{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", "PreemptionByScheduler"}},
      {{"type", "PodScheduled"},
       {"status", "False"},
       {"reason", "Unschedulable"},
       {"message", "0/3 nodes"}},
      {{"type", "Initialized"}, {"status", "True"}}};
  return pod;
}

TEST(ObservedTest, ReadsWhyAPodIsPending) {
  const auto pod = ObservePod(TroubledPod());
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->waiting_reason, "CrashLoopBackOff");
  EXPECT_EQ(pod->waiting_message, "back-off 5m");
  EXPECT_EQ(pod->last_end->exit_code, 139);
  EXPECT_FALSE(pod->termination);
  EXPECT_EQ(pod->disruption_reason, "PreemptionByScheduler");
  EXPECT_EQ(pod->unschedulable, "0/3 nodes");
  EXPECT_EQ(pod->deletion->grace_seconds, 30);
  EXPECT_EQ(FormatRfc3339(pod->deletion->RequestedAt()), "2026-01-01T00:00:30Z");
  EXPECT_FALSE(pod->spec_hash.empty());
}

TEST(ObservedTest, APodIsGatedAsLongAsItHasGates) {
  Object pod = PodWith("OnFailure", "Pending", Object::object());
  // As the API server writes it when the pod is created; it stays until the scheduler has looked.
  pod["status"]["conditions"] = {
      {{"type", "PodScheduled"}, {"status", "False"}, {"reason", "SchedulingGated"}}};
  EXPECT_EQ(ObservePod(pod)->waiting_reason, "");
  pod["spec"]["schedulingGates"] = {{{"name", "kueue.x-k8s.io/topology"}},
                                    {{"name", "example.com/licence"}}};
  const kube::FieldMask keep = PodFields();
  const auto read = kube::ParseObject(Object({{"object", pod}}).dump(), "object", &keep);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto gated = ObservePod(read->at("object"));
  EXPECT_EQ(gated->waiting_reason, "SchedulingGated");
  EXPECT_EQ(gated->waiting_message, "kueue.x-k8s.io/topology, example.com/licence");
  EXPECT_FALSE(IsStuck(gated->waiting_reason));
  for (int i = 0; i < 1000; ++i) {
    pod["spec"]["schedulingGates"].push_back({{"name", std::string(300, 'x')}});
  }
  EXPECT_LT(ObservePod(pod)->waiting_message.size(), 1'000U);
}

Object Waits(const std::string& reason) {
  return {{"waiting", {{"reason", reason}, {"message", "in other words"}}}};
}

// A pod of which init containers run, a sidecar among them, before its main container.
Object InitializingPod() {
  Object pod = PodWith("OnFailure", "Pending", Waits("PodInitializing"));
  pod["spec"]["initContainers"] = {
      {{"name", "proxy"}, {"restartPolicy", "Always"}}, {{"name", "fetch"}}, {{"name", "unpack"}}};
  pod["status"]["initContainerStatuses"] = {
      {{"name", "proxy"}, {"restartCount", 8}, {"state", {{"running", Object::object()}}}},
      {{"name", "fetch"}, {"restartCount", 0}, {"state", Waits("PodInitializing")}},
      {{"name", "unpack"}, {"restartCount", 0}, {"state", Waits("PodInitializing")}}};
  return pod;
}

TEST(ObservedTest, WhatKeepsAPodFromBeingUpIsToldWhicheverContainerItIs) {
  struct Case {
    const char* name;
    const char* container;  // of the status
    Object state, last_state;
    std::vector<Blocker> expected;
  };
  const Object running = {{"running", Object::object()}};
  const Blocker pulling{"init container fetch", 0, "ImagePullBackOff", "in other words"};
  const Blocker failed{"init container fetch", 3, "Error", "oops"};
  const Case cases[] = {
      {"it has not begun", "/initContainerStatuses/1", Waits("PodInitializing"), {}, {}},
      {"it runs", "/initContainerStatuses/1", running, {}, {}},
      {"it has succeeded", "/initContainerStatuses/1", ExitOf(0), ExitOf(3), {}},
      {"its image", "/initContainerStatuses/1", Waits("ImagePullBackOff"), {}, {pulling}},
      {"its image, now",
       "/initContainerStatuses/1",
       Waits("ImagePullBackOff"),
       ExitOf(3),
       {pulling}},
      {"it has failed", "/initContainerStatuses/1", ExitOf(3), {}, {failed}},
      {"it starts again later",
       "/initContainerStatuses/1",
       Waits("CrashLoopBackOff"),
       ExitOf(3),
       {failed}},
      {"it has started again", "/initContainerStatuses/1", running, ExitOf(3), {failed}},
      {"the second",
       "/initContainerStatuses/2",
       ExitOf(3),
       {},
       {{"init container unpack", 3, "Error", "oops"}}},
      {"a sidecar",
       "/initContainerStatuses/0",
       Waits("CrashLoopBackOff"),
       ExitOf(3),
       {{"sidecar proxy", 0, "CrashLoopBackOff", "in other words"}}},
      {"a sidecar's end", "/initContainerStatuses/0", running, ExitOf(3), {}},
      {"another container",
       "/containerStatuses/0",
       Waits("ErrImagePull"),
       {},
       {{"container sidecar", 0, "ErrImagePull", "in other words"}}},
      {"the main container", "/containerStatuses/1", Waits("ErrImagePull"), {}, {}},
  };
  for (const Case& c : cases) {
    Object object = InitializingPod();
    Object& status = object["status"][Object::json_pointer(c.container)];
    status["state"] = c.state;
    status["lastState"] = c.last_state;
    EXPECT_EQ(ObservePod(object)->blockers, c.expected) << c.name;
  }
}

TEST(ObservedTest, AnEndWithoutAStartIsNoRun) {
  for (const char* started : {"", "1970-01-01T00:00:00Z"}) {
    Object end = ExitOf(128);
    end["terminated"]["startedAt"] = started;
    const ObservedPod pod = *ObservePod(PodWith("Never", "Failed", end));
    EXPECT_FALSE(pod.termination->started_at) << started;
    EXPECT_FALSE(MayHaveStarted(pod)) << started;
  }
  EXPECT_TRUE(MayHaveStarted(*ObservePod(PodWith("Never", "Failed", ExitOf(128)))));
}

// As Kubernetes' Job counts them. Like a sidecar among the other containers, one among the init
// containers is no part of the pod's outcome.
TEST(ObservedTest, RestartsOfInitContainersCountAndThoseOfSidecarsDoNot) {
  Object object = InitializingPod();
  Object& init = object["status"]["initContainerStatuses"];
  EXPECT_EQ(ObservePod(object)->restart_count, 2);
  EXPECT_EQ(ObservePod(object)->last_run, 2) << "of the main container";
  init[1]["restartCount"] = 3;
  init[2]["restartCount"] = 4;
  for (const int i : {1, 2}) init[i]["lastState"] = ExitOf(3);
  EXPECT_EQ(ObservePod(object)->restart_count, 9);
  EXPECT_EQ(ObservePod(object)->last_run, 2);
  init[1]["state"] = ExitOf(0);  // it may have waited for something by failing
  EXPECT_EQ(ObservePod(object)->restart_count, 6);
  init[1]["state"] = {{"running", Object::object()}};  // again, after its node has started anew
  init[1]["lastState"] = ExitOf(0);
  EXPECT_EQ(ObservePod(object)->restart_count, 6);
  init[1]["state"] = ExitOf(1);
  EXPECT_EQ(ObservePod(object)->restart_count, 9);
  for (Object& status : init) status["restartCount"] = 2147483647;
  EXPECT_EQ(ObservePod(object)->restart_count, 100'000);
}

TEST(ObservedTest, AGracePeriodMayBeLongerThanAnInt) {
  struct Case {
    Object grace;
    const char* deadline;
    std::int64_t seconds;
    const char* requested_at;
  };
  constexpr std::int64_t kInt32 = std::int64_t{1} << 31;
  const Case cases[] = {
      {kInt32, "2094-01-19T03:14:08Z", kInt32, "2026-01-01T00:00:00Z"},
      {2 * kInt32, "2162-02-07T06:28:16Z", 2 * kInt32, "2026-01-01T00:00:00Z"},
      // No API server sends this.
      {std::numeric_limits<std::int64_t>::max(), "2261-12-31T23:59:59Z", 4 * kInt32,
       "1989-10-18T11:03:27Z"},
      {-1, "2026-01-01T00:00:00Z", 0, "2026-01-01T00:00:00Z"},
  };
  for (const Case& c : cases) {
    Object pod = TroubledPod();
    pod["metadata"]["deletionTimestamp"] = c.deadline;
    pod["metadata"]["deletionGracePeriodSeconds"] = c.grace;
    const auto read = ObservePod(pod);
    EXPECT_EQ(read->deletion->grace_seconds, c.seconds);
    EXPECT_EQ(FormatRfc3339(read->deletion->RequestedAt()), c.requested_at) << c.grace;
  }
}

TEST(ObservedTest, AStrangersLabelsAreNotAReplica) {
  for (const char* key : {"role", "replica-index", "attempt"}) {
    Object pod = PodWith("Never", "Running", Object::object());
    pod["metadata"]["labels"][std::string("training.lockstep.dev/") + key] = "-1";
    EXPECT_FALSE(ObservePod(pod)) << key;
  }
}

TEST(ObservedTest, OfTwoConditionsOfATypeTheFirstCounts) {
  Object pod = PodWith("Never", "Pending", Object::object());
  pod["status"]["conditions"] = {{{"type", "PodScheduled"}, {"status", "True"}},
                                 {{"type", "PodScheduled"},
                                  {"status", "False"},
                                  {"reason", "Unschedulable"},
                                  {"message", "x"}}};
  EXPECT_EQ(ObservePod(pod)->unschedulable, "");
}

TEST(ObservedTest, TheMainContainerIsTheAnnotatedOneWhicheverComesFirst) {
  Object pod = PodWith("Never", "Running", ExitOf(7));
  // By a known name, the container would be found without the note.
  pod["spec"]["containers"][1]["name"] = pod["status"]["containerStatuses"][1]["name"] = "train";
  pod["metadata"]["annotations"][api::kAnnotationMainContainer] = "train";
  const auto plain = ObservePod(pod);
  ASSERT_TRUE(plain && plain->termination);
  EXPECT_EQ(plain->termination->exit_code, 7);
  // As Istio does with holdApplicationUntilProxyStarts.
  Object& containers = pod["spec"]["containers"];
  containers.insert(containers.begin(), {{"name", "istio-proxy"}});
  Object& statuses = pod["status"]["containerStatuses"];
  statuses.insert(statuses.begin(),
                  {{"name", "istio-proxy"}, {"state", {{"running", Object::object()}}}});
  EXPECT_EQ(ObservePod(pod), plain);
}

TEST(ObservedTest, AReadyNodeSaysSo) {
  const auto node = [](const char* ready) {
    return Object{{"status",
                   {{"conditions",
                     {{{"type", "MemoryPressure"}, {"status", "False"}},
                      {{"type", "Ready"}, {"status", ready}}}}}}};
  };
  EXPECT_TRUE(IsReadyNode(node("True")));
  for (const char* ready : {"False", "Unknown", ""}) EXPECT_FALSE(IsReadyNode(node(ready)));
  EXPECT_FALSE(IsReadyNode(Object()));
}

TEST(ObservedTest, WhatIsNoPodIsNoReplica) {
  for (const Object& strange :
       {Object(), Object("text"), Object{{"metadata", 1}, {"status", "x"}, {"spec", {1, 2}}}}) {
    EXPECT_FALSE(ObservePod(strange));
  }
}

TEST(ObservedTest, WhatIsNotEvenParsedOfAPodIsNotMissed) {
  Object pod = TroubledPod();
  for (const char* member : {"volumes", "tolerations", "affinity"}) {
    pod["spec"][member] = {{{"name", "x"}}};
  }
  pod["spec"]["initContainers"] = InitializingPod()["spec"]["initContainers"];
  pod["status"]["initContainerStatuses"] = InitializingPod()["status"]["initContainerStatuses"];
  for (Object& init : pod["status"]["initContainerStatuses"]) {
    init["restartCount"] = 4;
    init["state"] = Waits("CrashLoopBackOff");
    init["lastState"] = ExitOf(3);
  }
  for (const char* member : {"env", "command", "args", "resources", "volumeMounts"}) {
    pod["spec"]["containers"][0][member] = {{{"name", "x"}}};
    pod["spec"]["initContainers"][0][member] = {{{"name", "x"}}};
  }
  const kube::FieldMask keep = PodFields();
  auto read = kube::ParseObject(Object({{"object", pod}}).dump(), "object", &keep);
  ASSERT_TRUE(read.ok()) << read.status();
  Object& skipped = read->at("object");
  EXPECT_FALSE(skipped["spec"].contains("volumes"));
  EXPECT_FALSE(skipped["spec"]["containers"][0].contains("env"));
  EXPECT_FALSE(skipped["spec"]["initContainers"][0].contains("env"));
  EXPECT_EQ(ObservePod(skipped), ObservePod(pod));
}

TEST(ObservedTest, WhatIsReadOfKubernetesObjectsIsReadAsProtobuf) {
  for (const auto& [kind, keep] : {std::pair{kube::kPodKind, PodFields()},
                                   std::pair{kube::kServiceKind, kube::IdentityFields()},
                                   std::pair{kNodeKind, NodeFields()}}) {
    EXPECT_TRUE(kube::HasProtobufOf(kind, &keep)) << kind.kind;
  }
}

TEST(ObservedTest, AJobThatIsNoneIsInvalidButHasItsName) {
  Object job = api::TrainingJobToJson(Job("j").Workers(1).Build());
  const ObservedJob fine = ObserveJob(job);
  EXPECT_FALSE(fine.invalid) << *fine.invalid;
  job["spec"]["replicaSpecs"]["Worker"]["replicas"] = "two";
  const ObservedJob broken = ObserveJob(job);
  ASSERT_TRUE(broken.invalid);
  EXPECT_NE(broken.invalid->find("spec.replicaSpecs.Worker.replicas"), std::string::npos);
  EXPECT_EQ(broken.job.metadata.name, "j");
  EXPECT_EQ(broken.job.metadata.uid, "j-uid");
}

TEST(ObservedTest, AJobThatCannotBeReadStillSaysWhoseItIsAndWhenItMayGo) {
  Object job = api::TrainingJobToJson(Job("j").Workers(1).Build());
  job["spec"]["replicaSpecs"] = 7;
  job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue";
  job["spec"]["runPolicy"] = {{"ttlSecondsAfterFinished", 60}, {"cleanPodPolicy", "Al"}};
  Observed observed{ObserveJob(job)};
  EXPECT_TRUE(observed.invalid);
  EXPECT_EQ(observed.job.spec.managed_by, "kueue.x-k8s.io/multikueue");
  EXPECT_EQ(observed.job.spec.run_policy.ttl_seconds_after_finished, 60);
  EXPECT_EQ(observed.job.spec.run_policy.clean_pod_policy, api::CleanPodPolicy::kRunning);
  EXPECT_EQ(MakePlan(observed).status, observed.job.status) << "hands off";
  job["spec"].erase("managedBy");
  static_cast<ObservedJob&>(observed) = ObserveJob(job);
  observed.now = Time(seconds(1'700'000'000));
  observed.job.status = MakePlan(observed).status;
  observed.now += seconds(60);
  EXPECT_EQ(MakePlan(observed).actions, std::vector<Action>{DeleteJob{}});
}

// Most changes of a job are statuses that the operator itself has written.
TEST(ObservedTest, OfAJobWhoseSpecHasNotChangedTheSpecIsNotReadAgain) {
  Object job = api::TrainingJobToJson(Job("j").Workers(2).Build());
  job["metadata"]["generation"] = 1;
  const ObservedJob before = ObserveJob(job);
  const auto workers = [](const ObservedJob& observed) {
    return observed.job.spec.replica_specs.at(api::Role::kWorker).replicas;
  };
  job["status"]["state"] = "Running";
  job["metadata"]["resourceVersion"] = "9";
  const ObservedJob after = ObserveJobAgain(job, before), whole = ObserveJob(job);
  EXPECT_EQ(after.job, whole.job);
  EXPECT_EQ(after.owned_metadata, whole.owned_metadata);
  EXPECT_FALSE(after.invalid);
  job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 3;
  EXPECT_EQ(workers(ObserveJobAgain(job, before)), 2) << "as if the server had not counted it";
  Object unreadable = job;
  unreadable["status"] = 7;
  EXPECT_TRUE(ObserveJobAgain(unreadable, before).invalid);
  EXPECT_EQ(ObserveJobAgain(unreadable, before).invalid, ObserveJob(unreadable).invalid);
  Object recreated = job;
  recreated["metadata"]["uid"] = "another";
  EXPECT_EQ(workers(ObserveJobAgain(recreated, before)), 3);
  job["metadata"]["generation"] = 2;
  EXPECT_EQ(workers(ObserveJobAgain(job, before)), 3);
  const ObservedJob none = ObserveJob(Object::object());
  EXPECT_EQ(workers(ObserveJobAgain(job, none)), 3);
}

// One tenant's objects must not fill the memory of an operator that serves others too.
TEST(ObservedTest, OfAJobOnlyWhatRulesReadIsHeld) {
  api::TrainingJob job = Job("j").Workers(1).Build();
  const std::string kept = "provreq.kueue.x-k8s.io/maxRunDurationSeconds";
  job.metadata.annotations = {{"note", std::string(200'000, 'x')}, {kept, "600"}};
  job.metadata.labels = {{"kueue.x-k8s.io/queue-name", "q"},
                         {"kueue.x-k8s.io/max-exec-time-seconds", "60"},
                         {"team", "vision"}};
  const ObservedJob held = ObserveJob(api::TrainingJobToJson(job));
  ASSERT_FALSE(held.invalid) << *held.invalid;
  EXPECT_EQ(held.job.metadata.annotations,
            decltype(held.job.metadata.annotations)({{kept, "600"}}));
  EXPECT_EQ(held.job.metadata.labels,
            decltype(held.job.metadata.labels)({{"kueue.x-k8s.io/queue-name", "q"},
                                                {"kueue.x-k8s.io/max-exec-time-seconds", "60"}}));
  EXPECT_FALSE(held.owned_metadata) << "200 KB";
}

TEST(ObservedTest, OfAJobsLabelsOnlyThoseThatAreReadAreHeld) {
  api::TrainingJob job = Job("j").Workers(1).Build();
  for (int i = 0; i < 1000; ++i) {
    job.metadata.labels["kueue.x-k8s.io/" + std::to_string(i)] = std::string(63, 'x');
  }
  job.metadata.labels["kueue.x-k8s.io/queue-name"] = "q";
  job.metadata.labels["kueue.x-k8s.io/priority-class"] = "p";
  const ObservedJob held = ObserveJob(api::TrainingJobToJson(job));
  EXPECT_EQ(held.job.metadata.labels.size(), 2U);
  EXPECT_EQ(QueueName(held.job), "q");
  EXPECT_EQ(PriorityOf(held.job)->name, "p");
}

// Who may write a pod's status may be a tenant.
TEST(ObservedTest, NoTextOfAPodIsHeldWithoutABound) {
  const std::string text(1'000'000, 'x');
  Object pod = TroubledPod();
  pod["metadata"]["annotations"][api::kAnnotationClusterShape] = text;
  pod["metadata"]["annotations"][api::kAnnotationElasticPeers] = text;
  pod["metadata"]["annotations"][api::kAnnotationElasticBounds] = text;
  pod["metadata"]["annotations"][api::kAnnotationSpecHash] = text;
  pod["metadata"]["annotations"][api::kAnnotationTrainerImage] = text;
  pod["metadata"]["annotations"][api::kAnnotationTrainerGpuImage] = text;
  pod["spec"]["nodeName"] = text;
  Object& status = pod["status"];
  for (const char* member : {"message", "reason", "podIP"}) status[member] = text;
  for (Object& condition : status["conditions"]) {
    if (condition["type"] != "PodScheduled") condition["reason"] = text;
    condition["message"] = text;
  }
  Object& main = status["containerStatuses"][1];
  main["state"]["waiting"] = {{"reason", text}, {"message", text}};
  for (const char* state : {"state", "lastState"}) {
    main[state]["terminated"] = {{"exitCode", 1}, {"reason", text}, {"message", text}};
  }
  pod["spec"]["restartPolicy"] = "Never";
  const Object init = {{"name", text},
                       {"state", {{"waiting", {{"reason", "Err" + text}, {"message", text}}}}}};
  status["initContainerStatuses"] = {init, init};
  const auto held = ObservePod(pod);
  ASSERT_TRUE(held);
  ASSERT_TRUE(held->termination && held->last_end);
  ASSERT_EQ(held->blockers.size(), 1U);
  std::size_t bytes = 0;
  for (const std::string* of_pod : {&held->name,
                                    &held->uid,
                                    &held->node,
                                    &held->ip,
                                    &held->reason,
                                    &held->message,
                                    &held->waiting_reason,
                                    &held->waiting_message,
                                    &held->unschedulable,
                                    &held->disruption_reason,
                                    &held->cluster_shape,
                                    &held->elastic_peers,
                                    &held->elastic_bounds,
                                    &held->spec_hash,
                                    &held->trainer_images.cpu,
                                    &held->trainer_images.gpu,
                                    &held->termination->reason,
                                    &held->termination->message,
                                    &held->last_end->reason,
                                    &held->last_end->message,
                                    &held->blockers[0].container,
                                    &held->blockers[0].reason,
                                    &held->blockers[0].message}) {
    EXPECT_LT(of_pod->capacity(), 5'000U);
    bytes += of_pod->capacity();
  }
  EXPECT_GT(bytes, 8'000U) << "the texts are there";
  EXPECT_LT(bytes, 18'000U);
}

TEST(ObservedTest, OfMetadataThatAWriteRepeatsNothingIsLeftOut) {
  api::TrainingJob job = Job("j").Workers(1).Build();
  job.metadata.labels = {{"team", "vision"}};
  job.metadata.annotations = {{"kubectl.kubernetes.io/last-applied-configuration", "{}"}};
  Object object = api::TrainingJobToJson(job);
  object["metadata"]["finalizers"] = {"example.com/stay"};
  const Object held = Object::parse(*ObserveJob(object).owned_metadata);
  for (const char* key : {"labels", "annotations", "finalizers"}) {
    EXPECT_EQ(held.at(key), object["metadata"][key]) << key;
  }
  object["metadata"]["labels"] = kube::kTooMany;  // no server would take it
  EXPECT_FALSE(Object::parse(*ObserveJob(object).owned_metadata).contains("labels"));
}

// Labels can be added to a job that has ended, and must not change how.
TEST(ObservedTest, AJobWithMoreLabelsThanAreReadKeepsItsStatus) {
  api::TrainingJob job = Job("j").Workers(1).Build();
  job.status.state = "Succeeded";
  job.status.attempt = 3;
  for (const char* key : {"labels", "annotations", "ownerReferences"}) {
    Object object = api::TrainingJobToJson(job);
    object["metadata"][key] = kube::kTooMany;
    const ObservedJob held = ObserveJob(object);
    ASSERT_TRUE(held.invalid) << key;
    EXPECT_NE(held.invalid->find(key), std::string::npos) << *held.invalid;
    EXPECT_EQ(held.job.status, job.status) << key;
    EXPECT_EQ(held.job.metadata.uid, job.metadata.uid) << key;
  }
}

TEST(ObservedTest, AJobIsHeldAsText) {
  api::TrainingSpec training = testing::MnistTraining();
  training.model.name = "";
  training.model.layers = Object::array({{{"type", "Flatten"}}, {{"type", "Dense"}}});
  const api::TrainingJob job = Job("j")
                                   .Workers(2)
                                   .Training(training)
                                   .PodTemplate(api::Role::kWorker, testing::Template("trainer"))
                                   .BuildWithDefaults();
  const ObservedJob held = ObserveJob(api::TrainingJobToJson(job));
  EXPECT_FALSE(held.invalid);
  EXPECT_FALSE(held.job.spec.replica_specs.at(api::Role::kWorker).tmpl.is_parsed());
  EXPECT_FALSE(held.job.spec.training->model.layers.is_parsed());
  // As what is not: an operator that parsed them made the pods that run.
  EXPECT_EQ(SpecHash(held.job, api::Role::kWorker), SpecHash(job, api::Role::kWorker));
  EXPECT_EQ(TemplatesHash(held.job), TemplatesHash(job));
  EXPECT_FALSE(held.job.spec.replica_specs.at(api::Role::kWorker).tmpl.is_parsed());
  EXPECT_EQ(ObservedJob(held).job.spec, job.spec);
}

TEST(ObservedTest, OfAnInvalidJobThatMayBeTooLargeNothingLargeIsHeld) {
  api::TrainingSpec training = testing::MnistTraining();
  training.model.layers = Object::array({{{"type", "Dense"}}});
  training.dataset.path = training.checkpoint.directory = std::string(300'000, 'x');
  const ObservedJob held = ObserveJob(api::TrainingJobToJson(
      Job("j")
          .Workers(2)
          .Training(training)
          .With([](api::TrainingJob& job) {
            job.spec.run_policy.scheduling_policy.emplace().min_resources["cpu"] = "1";
          })
          .Build()));
  ASSERT_TRUE(held.invalid);
  EXPECT_EQ(held.job.spec.training, api::TrainingSpec());
  EXPECT_FALSE(held.job.spec.run_policy.scheduling_policy);
}

TEST(ObservedTest, ATemplateThatIsTooLargeIsNotHeld) {
  Object job = api::TrainingJobToJson(Job("j").Workers(1).Build());
  Object& main = job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0];
  const Object large[] = {std::vector<std::string>(17'000, "x"), {std::string(300'000, 'x')}};
  for (const Object& args : large) {
    main["args"] = args;
    const ObservedJob held = ObserveJob(job);
    ASSERT_TRUE(held.invalid);
    EXPECT_NE(held.invalid->find("in the pod templates"), std::string::npos) << *held.invalid;
    const auto& worker = held.job.spec.replica_specs.at(api::Role::kWorker);
    EXPECT_TRUE(worker.tmpl->empty());
    EXPECT_EQ(worker.replicas, 1);
  }
  main["args"] = Object(std::vector<std::string>(16'000, "x"));
  EXPECT_FALSE(ObserveJob(job).invalid);
}

TEST(ObservedTest, AnErrorIsHeldAsLongAsAConditionReportsIt) {
  Object job = api::TrainingJobToJson(Job("j").Workers(1).Build());
  job["spec"]["replicaSpecs"]["Worker"]["replicas"] = std::string(100'000, 'x');
  EXPECT_LE(ObserveJob(job).invalid->size(), 16'400U);
}

TEST(ObservedTest, NoMoreOfAPodsTextsIsHeldThanAStatusReports) {
  const std::string text(1'000'000, 'x');
  Object pod = PodWith("Never", "Running", Object::object());
  Object& status = pod["status"];
  status["reason"] = status["message"] = text;
  const Object end = {{"exitCode", 1}, {"reason", text}, {"message", text}};
  status["conditions"] = {{{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", text}},
                          {{"type", "PodScheduled"},
                           {"status", "False"},
                           {"reason", "Unschedulable"},
                           {"message", text}}};
  status["containerStatuses"] = {{{"name", "tensorflow"},
                                  {"state", {{"waiting", {{"reason", text}, {"message", text}}}}},
                                  {"lastState", {{"terminated", end}}}}};
  const ObservedPod held = *ObservePod(pod);
  EXPECT_LE(held.reason.size() + held.message.size() + held.disruption_reason.size() +
                held.unschedulable.size() + held.waiting_reason.size() +
                held.waiting_message.size() + held.last_end->reason.size() +
                held.last_end->message.size(),
            70'000U);
  status["containerStatuses"][0]["state"] = {{"terminated", end}};
  status["phase"] = "Failed";
  EXPECT_LE(ObservePod(pod)->termination->message.size(), 16'400U);
}

}  // namespace
}  // namespace lockstep::controller
