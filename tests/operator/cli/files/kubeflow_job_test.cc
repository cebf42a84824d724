#include "operator/cli/files/kubeflow_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/training_job.h"
#include "tests/support/builders.h"

namespace lockstep::cli {
namespace {

using api::Json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Json Replica(int replicas) {
  return {{"replicas", replicas},
          {"restartPolicy", "OnFailure"},
          {"template", lockstep::testing::Template()}};
}

Json Kubeflow(const std::string& kind, const Json& spec) {
  return {{"apiVersion", "kubeflow.org/v1"},
          {"kind", kind},
          {"metadata", {{"name", "mnist"}, {"namespace", "team"}}},
          {"spec", spec}};
}

// A TFJob that causes no notes but those under test.
Json TfJob(const Json& replicas) {
  return Kubeflow("TFJob", {{"tfReplicaSpecs", replicas},
                            {"runPolicy", {{"cleanPodPolicy", "None"}, {"backoffLimit", 3}}}});
}
Json PyTorchJob() {
  return Kubeflow("PyTorchJob",
                  {{"pytorchReplicaSpecs", {{"Master", Replica(1)}, {"Worker", Replica(3)}}},
                   {"runPolicy", {{"cleanPodPolicy", "None"}, {"backoffLimit", 3}}}});
}

Json Spec(const ConvertedJob& job) {
  return Json::parse(job.object.at("spec").dump());
}

TEST(KubeflowJobTest, ATensorFlowJobKeepsItsRolesAndPolicies) {
  Json job = TfJob({{"Chief", Replica(1)}, {"PS", Replica(2)}, {"Worker", Replica(4)}});
  job["metadata"]["uid"] = "7";
  job["metadata"]["labels"] = {{"team", "vision"}};
  job["metadata"]["annotations"] = {{"kubectl.kubernetes.io/last-applied-configuration", "{}"}};
  job["status"] = {{"conditions", Json::array()}};
  job["spec"]["runPolicy"]["schedulingPolicy"] = {{"minAvailable", 4}, {"queue", "research"}};
  job["spec"]["runPolicy"]["suspend"] = true;
  const auto converted = ConvertKubeflowJob(job);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_THAT(converted->notes, ElementsAre(HasSubstr("this TFJob is on a cluster")));
  EXPECT_EQ(converted->object.at("apiVersion"), "training.lockstep.dev/v1");
  EXPECT_EQ(Json::parse(converted->object.at("metadata").dump()),
            (Json{{"name", "mnist"}, {"namespace", "team"}, {"labels", {{"team", "vision"}}}}));
  EXPECT_EQ(
      Spec(*converted),
      (Json{{"suspend", true},
            {"strategy", {{"type", "ParameterServer"}}},
            {"replicaSpecs", {{"Chief", Replica(1)}, {"PS", Replica(2)}, {"Worker", Replica(4)}}},
            {"runPolicy",
             {{"cleanPodPolicy", "None"},
              {"backoffLimit", 3},
              {"schedulingPolicy", {{"minAvailable", 4}, {"queue", "research"}}}}}}));
}

TEST(KubeflowJobTest, RoleNamesOfAnyCaseAndMastersAreKnown) {
  const auto converted =
      ConvertKubeflowJob(TfJob({{"master", Replica(1)}, {"worker", Replica(2)}}));
  ASSERT_TRUE(converted.ok()) << converted.status();
  const Json spec = Spec(*converted);
  EXPECT_EQ(spec.at("replicaSpecs").size(), 2U);
  EXPECT_TRUE(spec.at("replicaSpecs").contains("Chief"));
}

TEST(KubeflowJobTest, WhatHasNoEquivalentIsReported) {
  Json job = TfJob({{"Worker", Replica(2)}, {"Teacher", Replica(1)}});
  job["spec"]["enableDynamicWorker"] = true;
  job["spec"]["fancy"] = 1;
  job["spec"]["runPolicy"].erase("cleanPodPolicy");
  const auto converted = ConvertKubeflowJob(job);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_THAT(
      converted->notes,
      ElementsAre(
          "spec.tfReplicaSpecs.Teacher: has no equivalent in a TrainingJob and is left out",
          "spec.enableDynamicWorker: has an equivalent only with parameter servers and is "
          "left out",
          "spec.runPolicy.cleanPodPolicy: is not set: Kubeflow's default is None, "
          "Lockstep's is Running: pods that still run when the job ends are deleted",
          "spec.fancy: has no equivalent in a TrainingJob and is left out",
          "spec.restartScope: the loss of a replica restarts all of them (Gang); set Pod to "
          "restart only that one, as Kubeflow does"));
}

TEST(KubeflowJobTest, AbsentRestartPoliciesKeepTheirOldMeaning) {
  for (const auto& [kind, field, expected] :
       {std::tuple("TFJob", "tfReplicaSpecs", "Never"),
        std::tuple("PyTorchJob", "pytorchReplicaSpecs", "OnFailure")}) {
    Json worker = Replica(1);
    worker.erase("restartPolicy");
    const auto converted = ConvertKubeflowJob(Kubeflow(kind, {{field, {{"Worker", worker}}}}));
    ASSERT_TRUE(converted.ok()) << converted.status();
    EXPECT_EQ(Spec(*converted).at("replicaSpecs").at("Worker").at("restartPolicy"), expected);
  }
}

TEST(KubeflowJobTest, DynamicWorkersAreElastic) {
  Json job = TfJob({{"PS", Replica(1)}, {"Worker", Replica(4)}});
  job["spec"]["enableDynamicWorker"] = true;
  const auto converted = ConvertKubeflowJob(job);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_EQ(Spec(*converted).at("elastic"), (Json{{"minReplicas", 1}, {"maxReplicas", 4}}));
}

TEST(KubeflowJobTest, APyTorchJobsMasterIsTheChief) {
  Json job = PyTorchJob();
  Json& port = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0];
  port["ports"] = {{{"name", "pytorchjob-port"}, {"containerPort", 23456}}};
  job["spec"]["nprocPerNode"] = "4";
  const auto converted = ConvertKubeflowJob(job);
  ASSERT_TRUE(converted.ok()) << converted.status();
  const Json spec = Spec(*converted);
  EXPECT_EQ(spec.at("strategy"), (Json{{"type", "MultiWorkerMirrored"}, {"processesPerPod", 4}}));
  EXPECT_EQ(spec.at("/replicaSpecs/Chief/template/spec/containers/0/ports/0"_json_pointer),
            (Json{{"name", "cluster"}, {"containerPort", 23456}}));
  EXPECT_EQ(spec.at("replicaSpecs").at("Worker").at("replicas"), 3);
}

// Returns the notes about nprocPerNode of a PyTorchJob whose workers have these resources.
std::vector<std::string> ProcessNotes(const Json& resources, const Json& spec = Json::object()) {
  Json job = PyTorchJob();
  job["spec"].update(spec);
  job["spec"]["pytorchReplicaSpecs"].erase("Master");
  Json& worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"];
  worker = lockstep::testing::Template("pytorch");
  worker["spec"]["containers"][0]["resources"] = resources;
  const auto converted = ConvertKubeflowJob(job);
  EXPECT_TRUE(converted.ok()) << converted.status();
  std::vector<std::string> notes = converted.ok() ? converted->notes : std::vector<std::string>();
  std::erase_if(
      notes, [](const std::string& note) { return note.find("rocPerNode") == std::string::npos; });
  return notes;
}

// Kubeflow's torchrun counts by itself what is there.
TEST(KubeflowJobTest, PodsWhoseAcceleratorsAreNotCountedAreNoted) {
  const std::string one =
      "spec.nprocPerNode: torchrun starts one process in a pod of Worker, whose "
      "limits have no GPU that is counted";
  EXPECT_THAT(ProcessNotes({{"claims", {{{"name", "gpus"}}}}}),
              ElementsAre(HasSubstr(one + " (found the claim gpus); ")));
  EXPECT_THAT(ProcessNotes({{"limits", {{"cpu", 8}, {"example.com/npu", 8}}}}),
              ElementsAre(HasSubstr(one + " (found example.com/npu); ")));
  EXPECT_THAT(ProcessNotes({{"limits", {{"cpu", 8}}}}), ElementsAre(HasSubstr(one + "; ")));
  for (const Json& elastic : {Json::object(), Json{{"elasticPolicy", Json::object()}}}) {
    EXPECT_THAT(ProcessNotes(Json::object(), elastic), ElementsAre(HasSubstr(one)));
  }
  EXPECT_THAT(ProcessNotes({{"limits", {{"example.com/npu", 8}}}}, {{"nprocPerNode", "auto"}}),
              ElementsAre(HasSubstr("\"auto\" is left out"), HasSubstr(one)));
}

TEST(KubeflowJobTest, PodsWhoseProcessesAreCountedOrStatedAreNotNoted) {
  for (const char* resource : {"nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi"}) {
    EXPECT_THAT(ProcessNotes({{"limits", {{resource, 8}, {"rdma/hca", 1}}}}), IsEmpty());
  }
  EXPECT_THAT(ProcessNotes(Json::object(), {{"nprocPerNode", "2"}}), IsEmpty());
  EXPECT_THAT(ProcessNotes(Json::object(), {{"elasticPolicy", {{"nProcPerNode", 2}}}}), IsEmpty());
}

TEST(KubeflowJobTest, AnImpossibleNumberOfProcessesIsRefusedAsItIs) {
  for (const Json& number : {Json(4'294'967'298), Json("4294967298")}) {
    Json job = PyTorchJob();
    job["spec"]["nprocPerNode"] = number;
    const auto converted = ConvertKubeflowJob(job);
    EXPECT_TRUE(absl::IsInvalidArgument(converted.status()));
    EXPECT_THAT(std::string(converted.status().message()),
                HasSubstr("spec.strategy.processesPerPod: found 4294967298"));
  }
}

// A PyTorchJob called mnist, whose workers have this argument.
Json WithArgument(const std::string& argument) {
  Json job = PyTorchJob();
  job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"] =
      Json::array({argument});
  return job;
}

TEST(KubeflowJobTest, ProgramsAreToldTheMastersNewHostName) {
  Json job = WithArgument("--rdzv_endpoint=mnist-master-0:29500");
  Json& pod = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"];
  pod["containers"][0]["command"] = {"sh", "-c", "ping mnist-master-0 && a tcp://mnist-master-0/x"};
  pod["containers"][0]["env"] = {{{"name", "HOSTS"}, {"value", "mnist-worker-0,mnist-master-0"}},
                                 {{"name", "IP"}, {"valueFrom", Json::object()}}};
  pod["initContainers"] = {
      {{"name", "wait"}, {"image", "a"}, {"args", Json::array({"mnist-master-0"})}}};
  const auto converted = ConvertKubeflowJob(job);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_THAT(converted->notes, Contains("spec.replicaSpecs: the host name mnist-master-0 is "
                                         "replaced by mnist-chief-0, the Master's here"));
  const Json roles = Spec(*converted).at("replicaSpecs");
  EXPECT_EQ(roles.at("/Worker/template/spec/containers/0/args/0"_json_pointer),
            "--rdzv_endpoint=mnist-chief-0:29500");
  const Json& chief = roles.at("/Chief/template/spec"_json_pointer);
  EXPECT_EQ(chief.at("/containers/0/command/2"_json_pointer),
            "ping mnist-chief-0 && a tcp://mnist-chief-0/x");
  EXPECT_EQ(chief.at("/containers/0/env/0/value"_json_pointer), "mnist-worker-0,mnist-chief-0");
  EXPECT_EQ(chief.at("/initContainers/0/args/0"_json_pointer), "mnist-chief-0");
}

TEST(KubeflowJobTest, OtherNamesThanTheMastersStay) {
  for (const char* other :
       {"my-mnist-master-0:1", "a.mnist-master-0", "mnist-master-01", "mnist-master-0-old",
        "mnist-master-0.team.svc", "/logs/mnist-master-0", "mnist-master-0/checkpoints",
        "mnist-master-1", "mnist2-master-0", "mnist-worker-0"}) {
    const auto converted = ConvertKubeflowJob(WithArgument(other));
    ASSERT_TRUE(converted.ok()) << converted.status();
    EXPECT_EQ(
        Spec(*converted).at("/replicaSpecs/Worker/template/spec/containers/0/args/0"_json_pointer),
        other);
    EXPECT_THAT(converted->notes, Not(Contains(HasSubstr("host name")))) << other;
  }
}

TEST(KubeflowJobTest, OnlyAMasterHasItsHostName) {
  Json replica = Replica(1);
  replica["template"]["spec"]["containers"][0]["args"] = Json::array({"mnist-master-0"});
  for (const auto& [role, expected] :
       {std::pair("MASTER", "mnist-chief-0"), std::pair("Chief", "mnist-master-0")}) {
    const auto converted = ConvertKubeflowJob(TfJob({{role, replica}}));
    ASSERT_TRUE(converted.ok()) << converted.status();
    EXPECT_EQ(
        Spec(*converted).at("/replicaSpecs/Chief/template/spec/containers/0/args/0"_json_pointer),
        expected);
  }
}

TEST(KubeflowJobTest, AJaxJobKeepsItsWorkers) {
  Json worker = Replica(3);
  worker.erase("restartPolicy");
  worker["template"] = lockstep::testing::Template("jax");
  worker["template"]["spec"]["containers"][0]["ports"] = {
      {{"name", "jaxjob-port"}, {"containerPort", 6666}}};
  const Json job =
      Kubeflow("JAXJob", {{"jaxReplicaSpecs", {{"Worker", worker}}},
                          {"runPolicy", {{"cleanPodPolicy", "None"}, {"backoffLimit", 3}}}});
  ASSERT_TRUE(IsKubeflowJob(job));
  const auto converted = ConvertKubeflowJob(job);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_EQ(Spec(*converted).at("successPolicy"), "AllWorkers");
  const Json made = Spec(*converted).at("replicaSpecs").at("Worker");
  EXPECT_EQ(made.at("replicas"), 3);
  EXPECT_EQ(made.at("restartPolicy"), "Never") << "Kubeflow's default";
  EXPECT_EQ(made.at("template").at("spec").at("containers").at(0).at("ports").at(0).at("name"),
            "cluster");
  EXPECT_THAT(converted->notes, ElementsAre(HasSubstr("spec.restartScope")));
}

TEST(KubeflowJobTest, WorkersWithoutAMasterSucceedTogether) {
  Json job = PyTorchJob();
  EXPECT_FALSE(Spec(*ConvertKubeflowJob(job)).contains("successPolicy"));
  job["spec"]["pytorchReplicaSpecs"].erase("Master");
  EXPECT_EQ(Spec(*ConvertKubeflowJob(job)).at("successPolicy"), "AllWorkers");
  job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 1;
  EXPECT_FALSE(Spec(*ConvertKubeflowJob(job)).contains("successPolicy"));
  const Json tensorflow = TfJob({{"Worker", Replica(3)}});
  EXPECT_FALSE(Spec(*ConvertKubeflowJob(tensorflow)).contains("successPolicy"))
      << "worker 0 decides there, too";
}

// Kubeflow's operator looks at it only if there is neither.
TEST(KubeflowJobTest, BesideAChiefOrMasterASuccessPolicyIsLeftOut) {
  for (const char* role : {"Chief", "Master", "Evaluator"}) {
    Json job = TfJob({{role, Replica(1)}, {"PS", Replica(1)}, {"Worker", Replica(2)}});
    job["spec"]["successPolicy"] = "AllWorkers";
    const auto converted = ConvertKubeflowJob(job);
    ASSERT_TRUE(converted.ok()) << converted.status();
    const bool has_effect = role == std::string("Evaluator");
    EXPECT_EQ(Spec(*converted).value("successPolicy", ""), has_effect ? "AllWorkers" : "") << role;
    if (has_effect) {
      EXPECT_THAT(converted->notes, IsEmpty());
    } else {
      EXPECT_THAT(converted->notes,
                  ElementsAre(HasSubstr("spec.successPolicy: \"AllWorkers\" is left out")));
    }
  }
}

// Kubeflow keeps such jobs, and `kubectl get` prints them among those that run.
TEST(KubeflowJobTest, OfAJobThatHasEndedTheNoteSaysThatItWouldRunAgain) {
  Json job = PyTorchJob();
  const auto notes_with = [&job](const char* type, const char* status) {
    job["status"] = {
        {"conditions",
         {{{"type", "Created"}, {"status", "True"}}, {{"type", type}, {"status", status}}}}};
    return ConvertKubeflowJob(job)->notes;
  };
  EXPECT_THAT(notes_with("Succeeded", "True"),
              Contains("status: this PyTorchJob has ended (Succeeded): the TrainingJob, once "
                       "created, runs it again"));
  EXPECT_THAT(notes_with("Failed", "True"), Contains(HasSubstr("has ended (Failed)")));
  EXPECT_THAT(notes_with("Failed", "False"), Not(Contains(HasSubstr("has ended"))));
  EXPECT_THAT(notes_with("Running", "True"), Not(Contains(HasSubstr("has ended"))));
}

TEST(KubeflowJobTest, OfAJobOnAClusterTheNoteSaysThatItsPodsAreInTheWay) {
  Json job = PyTorchJob();
  EXPECT_THAT(ConvertKubeflowJob(job)->notes, Not(Contains(HasSubstr("metadata.name"))));
  job["metadata"]["uid"] = "7";
  EXPECT_THAT(ConvertKubeflowJob(job)->notes,
              Contains(HasSubstr("metadata.name: this PyTorchJob is on a cluster")));
}

TEST(KubeflowJobTest, AnElasticPolicyBecomesElasticWithScopePod) {
  Json job = PyTorchJob();
  job["spec"]["pytorchReplicaSpecs"].erase("Master");
  job["spec"]["elasticPolicy"] = {
      {"minReplicas", 1},  {"maxReplicas", 5}, {"maxRestarts", 9},        {"rdzvBackend", "etcd"},
      {"nProcPerNode", 2}, {"rdzvHost", "x"},  {"metrics", Json::array()}};
  const auto converted = ConvertKubeflowJob(job);
  ASSERT_TRUE(converted.ok()) << converted.status();
  const Json spec = Spec(*converted);
  EXPECT_EQ(spec.at("elastic"), (Json{{"minReplicas", 1}, {"maxReplicas", 5}}));
  EXPECT_EQ(spec.at("restartScope"), "Pod");
  EXPECT_FALSE(spec.contains("successPolicy")) << "of an elastic job, one worker is enough";
  EXPECT_EQ(spec.at("strategy").at("processesPerPod"), 2);
  EXPECT_THAT(converted->notes, Not(Contains(HasSubstr("maxRestarts"))));
  EXPECT_THAT(converted->notes, Contains(HasSubstr("HorizontalPodAutoscaler")));
  EXPECT_THAT(converted->notes, Contains(HasSubstr("spec.elasticPolicy.rdzvBackend: \"etcd\"")));
  EXPECT_THAT(converted->notes, Contains(HasSubstr("spec.elasticPolicy.rdzvHost")));
  EXPECT_THAT(converted->notes, Contains(HasSubstr("spec.successPolicy")));
  EXPECT_THAT(converted->notes, Not(Contains(HasSubstr("restartScope"))));
}

TEST(KubeflowJobTest, WhatAnElasticPolicySaysToTorchrunIsSaidByVariables) {
  Json job = PyTorchJob();
  job["spec"]["pytorchReplicaSpecs"].erase("Master");
  Json& worker = job["spec"]["pytorchReplicaSpecs"]["Worker"];
  worker["template"] = lockstep::testing::Template("pytorch");
  job["spec"]["elasticPolicy"] = {
      {"maxRestarts", 9},
      {"rdzvConf",
       {{{"key", "timeout"}, {"value", "900"}}, {{"key", "last_call_timeout"}, {"value", "5"}}}}};
  const auto env = [](const Json& from) {
    const auto converted = ConvertKubeflowJob(from);
    EXPECT_TRUE(converted.ok()) << converted.status();
    EXPECT_THAT(converted->notes, Not(Contains(HasSubstr("elasticPolicy"))));
    return Spec(*converted).at("/replicaSpecs/Worker/template/spec/containers/0/env"_json_pointer);
  };
  const Json restarts{{"name", "PET_MAX_RESTARTS"}, {"value", "9"}};
  const Json conf{{"name", "PET_RDZV_CONF"}, {"value", "timeout=900,last_call_timeout=5"}};
  EXPECT_EQ(env(job), Json::array({restarts, conf}));
  const Json own{{"name", "PET_MAX_RESTARTS"}, {"value", "3"}};
  worker["template"]["spec"]["containers"][0]["env"] = Json::array({own});
  EXPECT_EQ(env(job), Json::array({own, conf})) << "the template's own wins, as elsewhere";
}

// All pods have one template, and one of them hosts.
TEST(KubeflowJobTest, WhoHostsTheRendezvousIsLeftToTheOperator) {
  Json job = PyTorchJob();
  job["spec"]["pytorchReplicaSpecs"].erase("Master");
  job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = lockstep::testing::Template("pytorch");
  const auto env_with = [&](const Json& conf) {
    job["spec"]["elasticPolicy"] = {{"rdzvConf", conf}};
    const auto converted = ConvertKubeflowJob(job);
    EXPECT_TRUE(converted.ok()) << converted.status();
    EXPECT_THAT(converted->notes,
                Contains("spec.elasticPolicy.rdzvConf: is_host is left out: the leading pod hosts "
                         "the store"));
    return Spec(*converted)
        .at("/replicaSpecs/Worker/template/spec/containers/0"_json_pointer)
        .value("env", Json::array());
  };
  const Json host{{"key", "is_host"}, {"value", "0"}};
  EXPECT_EQ(env_with({{{"key", "timeout"}, {"value", "900"}}, host}),
            (Json{{{"name", "PET_RDZV_CONF"}, {"value", "timeout=900"}}}));
  EXPECT_EQ(env_with(Json::array({host})), Json::array());
}

TEST(KubeflowJobTest, WhatTorchrunCannotReadIsLeftOut) {
  Json job = PyTorchJob();
  job["spec"]["elasticPolicy"] = {{"maxRestarts", "many"}, {"rdzvConf", {{{"key", "timeout"}}}}};
  const auto converted = ConvertKubeflowJob(job);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_THAT(converted->notes, Contains("spec.elasticPolicy.maxRestarts: found \"many\", expected "
                                         "a number; left out"));
  EXPECT_THAT(converted->notes, Contains(HasSubstr("spec.elasticPolicy.rdzvConf: expected")));
}

TEST(KubeflowJobTest, WhatCannotBecomeAValidJobIsRefusedByItsField) {
  struct Case {
    Json job;
    const char* expected;
  };
  Json none = TfJob({{"Worker", Replica(1)}});
  none.erase("spec");
  Json wrong = TfJob({{"Worker", Replica(1)}});
  wrong["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = "two";
  const Case cases[] = {
      {none, "spec: found none"},
      {wrong, "spec.replicaSpecs.Worker.replicas: found \"two\""},
      {TfJob(Json::object()), "found no Worker and no Chief replica"},
      {TfJob({{"Chief", Replica(2)}}), "spec.replicaSpecs.Chief.replicas: found 2"},
      {TfJob(Json("none")), "found no Worker and no Chief replica"},
  };
  for (const Case& c : cases) {
    const auto converted = ConvertKubeflowJob(c.job);
    EXPECT_TRUE(absl::IsInvalidArgument(converted.status()));
    EXPECT_THAT(std::string(converted.status().message()), HasSubstr(c.expected));
  }
}

TEST(KubeflowJobTest, OnlyJobsOfKubeflowV1AreTaken) {
  EXPECT_TRUE(IsKubeflowJob(PyTorchJob()));
  Json other = PyTorchJob();
  other["kind"] = "MPIJob";
  EXPECT_FALSE(IsKubeflowJob(other));
  other = PyTorchJob();
  other["apiVersion"] = "kubeflow.org/v1beta1";
  EXPECT_FALSE(IsKubeflowJob(other));
  EXPECT_FALSE(IsKubeflowJob(Json(3)));
  EXPECT_FALSE(IsKubeflowJob(Json{{"kind", 7}, {"apiVersion", 7}}));
}

}  // namespace
}  // namespace lockstep::cli
