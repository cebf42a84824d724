#include "operator/controller/children/replica_env.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/builders.h"

namespace lockstep::controller {
namespace {

using api::Role;
using testing::Job;
using Env = std::map<std::string, api::Json>;

Env EnvOf(const testing::JobBuilder& job, Role role, int index, int attempt = 0) {
  Env env;
  for (EnvVar& variable :
       ReplicaEnv(ClusterSpec(job.BuildWithDefaults(), DnsAddresses()), {role, index}, attempt)) {
    EXPECT_TRUE(env.emplace(variable.name, variable.source).second) << variable.name;
  }
  return env;
}

testing::JobBuilder With(const char* container, testing::JobBuilder job) {
  return job.PodTemplate(Role::kWorker, testing::Template(container));
}

TEST(ReplicaEnvTest, SaysWhoTheReplicaIs) {
  const Env env = EnvOf(With("mine", Job("j").Workers(2)), Role::kWorker, 1, 3);
  EXPECT_EQ(env.at("LOCKSTEP_JOB"), "j");
  EXPECT_EQ(env.at("LOCKSTEP_NAMESPACE"), "default");
  EXPECT_EQ(env.at("LOCKSTEP_ROLE"), "worker");
  EXPECT_EQ(env.at("LOCKSTEP_INDEX"), "1");
  EXPECT_EQ(env.at("LOCKSTEP_ATTEMPT"), "3");
  for (const char* name : {"LOCKSTEP_CONFIG", "LOCKSTEP_JOB_UID", "LOCKSTEP_POD_IP"}) {
    EXPECT_FALSE(env.contains(name)) << name;
  }
}

TEST(ReplicaEnvTest, ATfConfigThatIsTooLongIsLeftOutWhereItMayNotBeNeeded) {
  EXPECT_TRUE(EnvOf(With("mine", Job("j").Workers(2000)), Role::kWorker, 1).contains("TF_CONFIG"));
  const Env env = EnvOf(With("mine", Job("j").Workers(8000)), Role::kWorker, 1);
  EXPECT_FALSE(env.contains("TF_CONFIG"));
  EXPECT_TRUE(env.contains("MASTER_ADDR"));
}

TEST(ReplicaEnvTest, TheBundledTrainerGetsItsConfiguration) {
  const Env env = EnvOf(Job("j").Workers(1).Training().Uid("u"), Role::kWorker, 0);
  const auto config = nlohmann::json::parse(env.at("LOCKSTEP_CONFIG").get<std::string>());
  EXPECT_EQ(*api::TrainingSpecFromJson(config), testing::MnistTraining());
  EXPECT_TRUE(env.contains("LOCKSTEP_STRATEGY"));
  EXPECT_EQ(env.at("LOCKSTEP_RESTART_SCOPE"), "InPlace");
  EXPECT_EQ(env.at("LOCKSTEP_JOB_UID"), "u");
  EXPECT_EQ(env.at("LOCKSTEP_PROCESSES_PER_POD"), "1");
  EXPECT_EQ(env.at("LOCKSTEP_POD_IP").dump(), R"({"fieldRef":{"fieldPath":"status.podIP"}})");
  EXPECT_TRUE(env.contains("TF_CONFIG"));
  EXPECT_FALSE(env.contains("RANK"));
  EXPECT_FALSE(env.contains("LOCKSTEP_GRACE_SECONDS"));
}

// A trainer that knows no stages refuses the field, so it sees it only where there are several.
TEST(ReplicaEnvTest, TheBundledTrainerIsToldOfSeveralStagesAndNotOfOne) {
  const auto strategy = [](int stages) {
    const Env env = EnvOf(Job("j").Workers(4).Training().Stages(stages), Role::kWorker, 0);
    return nlohmann::json::parse(env.at("LOCKSTEP_STRATEGY").get<std::string>());
  };
  EXPECT_EQ(strategy(2).value("stages", 0), 2);
  EXPECT_FALSE(strategy(1).contains("stages"));
}

TEST(ReplicaEnvTest, TheBundledTrainerGetsAGracePeriodThatIsNotTheDefault) {
  const auto patient = Job("j").Workers(1).Training().PodTemplate(
      Role::kWorker, api::Json{{"spec", {{"terminationGracePeriodSeconds", 120}}}});
  EXPECT_EQ(EnvOf(patient, Role::kWorker, 0).at("LOCKSTEP_GRACE_SECONDS"), "120");
}

// Without it the trainer would write its results where no kubelet looks for them.
TEST(ReplicaEnvTest, TheBundledTrainerGetsATerminationMessagePathThatIsNotTheDefault) {
  api::Json container = {{"name", "trainer"}};
  const auto env = [&container] {
    const api::Json pod_template{{"spec", {{"containers", {container}}}}};
    return EnvOf(Job("j").Workers(1).Training().PodTemplate(Role::kWorker, pod_template),
                 Role::kWorker, 0);
  };
  EXPECT_FALSE(env().contains("LOCKSTEP_TERMINATION_MESSAGE_PATH"));
  container["terminationMessagePath"] = "/tmp/message";
  EXPECT_EQ(env().at("LOCKSTEP_TERMINATION_MESSAGE_PATH"), "/tmp/message");
}

TEST(ReplicaEnvTest, TheMainContainersNameSaysWhichFrameworkReadsIt) {
  struct Case {
    const char* container;
    bool tensorflow, torch, jax, lockstep;
  };
  for (const Case& expected :
       {Case{"tensorflow", true, false, false, false}, Case{"pytorch", false, true, false, false},
        Case{"jax", false, false, true, false}, Case{"trainer", true, true, true, true},
        Case{"mine", true, true, true, true}}) {
    SCOPED_TRACE(expected.container);
    const Env env = EnvOf(With(expected.container, Job("j").Workers(2)), Role::kWorker, 1);
    EXPECT_EQ(env.contains("TF_CONFIG"), expected.tensorflow);
    EXPECT_EQ(env.contains("RANK"), expected.torch);
    EXPECT_EQ(env.contains("PET_NNODES"), expected.torch);
    EXPECT_EQ(env.contains("JAX_PROCESS_ID"), expected.jax);
    EXPECT_EQ(env.contains("PROCESS_ID"), expected.jax);
    EXPECT_EQ(env.contains("LOCKSTEP_INDEX"), expected.lockstep);
  }
}

TEST(ReplicaEnvTest, ASidecarSaysNothingOfTheFramework) {
  api::Json pod_template = testing::Template("pytorch");
  pod_template["spec"]["containers"].insert(pod_template["spec"]["containers"].begin(),
                                            {{"name", "logs"}, {"image", "x"}});
  const Env env =
      EnvOf(Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template), Role::kWorker, 0);
  EXPECT_TRUE(env.contains("RANK"));
  EXPECT_FALSE(env.contains("TF_CONFIG"));
}

TEST(ReplicaEnvTest, TorchRanksCountTheChiefFirst) {
  const auto job = With("pytorch", Job("j").Chief().Workers(2).ProcessesPerPod(4));
  const Env env = EnvOf(job, Role::kWorker, 1);
  EXPECT_EQ(env.at("RANK"), "2");
  EXPECT_EQ(env.at("WORLD_SIZE"), "12");
  EXPECT_EQ(env.at("MASTER_ADDR"), "j-chief-0.j.default.svc");
  EXPECT_EQ(env.at("MASTER_PORT"), "2222");
  EXPECT_EQ(env.at("PET_MASTER_ADDR"), "j-chief-0.j.default.svc");
  EXPECT_EQ(env.at("PET_NNODES"), "3");
  EXPECT_EQ(env.at("PET_NODE_RANK"), "2");
  EXPECT_EQ(env.at("PET_NPROC_PER_NODE"), "4");
  EXPECT_FALSE(env.contains("PET_RDZV_ENDPOINT"));
}

// As with Kubeflow: only torchrun starts a process for each GPU.
TEST(ReplicaEnvTest, AWorldCountsGpusOnlyIfTheJobSaysSo) {
  api::Json pod_template = testing::Template("pytorch");
  pod_template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 4;
  const auto with_gpus = Job("j").Workers(2).PodTemplate(Role::kWorker, pod_template);
  for (const auto& job : {with_gpus, testing::JobBuilder(with_gpus).Strategy(
                                         api::StrategyType::kMultiWorkerMirrored)}) {
    const Env env = EnvOf(job, Role::kWorker, 1);
    EXPECT_EQ(env.at("RANK"), "1");
    EXPECT_EQ(env.at("WORLD_SIZE"), "2");
    EXPECT_EQ(env.at("PET_NPROC_PER_NODE"), "4");
  }
}

TEST(ReplicaEnvTest, AnElasticJobMeetsAtItsLeader) {
  const auto job = With("pytorch", Job("j").Workers(2)).With([](api::TrainingJob& made) {
    made.spec.elastic = api::ElasticSpec{1, 4};
  });
  const Env env = EnvOf(job, Role::kWorker, 0);
  EXPECT_EQ(env.at("PET_NNODES"), "1:4");
  EXPECT_EQ(env.at("PET_RDZV_ENDPOINT"), "j-worker-0.j.default.svc:2222");
  EXPECT_EQ(env.at("PET_RDZV_BACKEND"), "c10d");
  EXPECT_FALSE(env.contains("PET_NODE_RANK"));
  EXPECT_EQ(env.at("PET_RDZV_CONF"), "is_host=true");
  EXPECT_EQ(EnvOf(job, Role::kWorker, 1).at("PET_RDZV_CONF"), "is_host=false")
      << "exactly one hosts the store, whatever DNS says of the endpoint";
}

TEST(ReplicaEnvTest, AnElasticJobsChiefIsANodeOfItsToo) {
  const auto job = With("pytorch", Job("j").Chief().Workers(2)).With([](api::TrainingJob& made) {
    made.spec.elastic = api::ElasticSpec{1, 4};
  });
  const Env env = EnvOf(job, Role::kWorker, 0);
  EXPECT_EQ(env.at("PET_NNODES"), "2:5");
  EXPECT_EQ(env.at("PET_RDZV_ENDPOINT"), "j-chief-0.j.default.svc:2222");
}

TEST(ReplicaEnvTest, JaxCountsPods) {
  const Env env = EnvOf(With("jax", Job("j").Workers(2).ProcessesPerPod(4)), Role::kWorker, 1);
  EXPECT_EQ(env.at("JAX_COORDINATOR_ADDRESS"), "j-worker-0.j.default.svc:2222");
  EXPECT_EQ(env.at("JAX_NUM_PROCESSES"), "2");
  EXPECT_EQ(env.at("JAX_PROCESS_ID"), "1");
  EXPECT_EQ(env.at("COORDINATOR_ADDRESS"), "j-worker-0.j.default.svc");
  EXPECT_EQ(env.at("COORDINATOR_PORT"), "2222");
  EXPECT_EQ(env.at("NUM_PROCESSES"), "2");
  EXPECT_EQ(env.at("PROCESS_ID"), "1");
}

TEST(ReplicaEnvTest, ServersAndEvaluatorsHaveNoRank) {
  const auto job = Job("j").Workers(1).ParameterServers(1).Evaluator();
  for (const Role role : {Role::kParameterServer, Role::kEvaluator}) {
    const Env env = EnvOf(job, role, 0);
    EXPECT_TRUE(env.contains("TF_CONFIG"));
    EXPECT_FALSE(env.contains("RANK"));
    EXPECT_FALSE(env.contains("JAX_PROCESS_ID"));
  }
}

TEST(ReplicaEnvTest, WithAnEvaluatorNobodyElseEvaluates) {
  const auto evaluates = [](const testing::JobBuilder& job, Role role) {
    const std::string text = EnvOf(job, role, 0).at("LOCKSTEP_CONFIG").get<std::string>();
    return api::TrainingSpecFromJson(nlohmann::json::parse(text))->evaluation.enabled;
  };
  const auto job = Job("j").Chief().Workers(1).Evaluator().Training();
  EXPECT_FALSE(evaluates(job, Role::kChief));
  EXPECT_FALSE(evaluates(job, Role::kWorker));
  EXPECT_TRUE(evaluates(job, Role::kEvaluator));
  EXPECT_TRUE(evaluates(Job("j").Workers(1).Evaluator(0).Training(), Role::kWorker));
}

TEST(ReplicaEnvTest, AnEvaluatorIsToldHowManyProcessesTrain) {
  api::Json pod_template = testing::Template("trainer");
  pod_template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 4;
  api::TrainingJob job = Job("j").Workers(2).Evaluator().Training().Build();
  job.spec.replica_specs[Role::kWorker].tmpl = pod_template;
  for (const EnvVar& variable :
       ReplicaEnv(ClusterSpec(job, DnsAddresses()), {Role::kEvaluator, 0}, 0)) {
    if (variable.name == "LOCKSTEP_PROCESSES_PER_POD") {
      EXPECT_EQ(variable.source, "4");
      return;
    }
  }
  FAIL() << "no LOCKSTEP_PROCESSES_PER_POD";
}

// An Evaluator's pod may have fewer, or none.
TEST(ReplicaEnvTest, ThePodsThatAskForGpusAreToldHowMany) {
  api::Json pod_template = testing::Template("trainer");
  pod_template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 4;
  api::TrainingJob job = Job("j").Workers(2).Evaluator().Training().Build();
  job.spec.replica_specs[Role::kWorker].tmpl = pod_template;
  const auto gpus = [&job](Role role) -> std::string {
    for (const EnvVar& variable : ReplicaEnv(ClusterSpec(job, DnsAddresses()), {role, 0}, 0)) {
      if (variable.name == "LOCKSTEP_GPUS") return variable.source;
    }
    return "none";
  };
  EXPECT_EQ(gpus(Role::kWorker), "4");
  EXPECT_EQ(gpus(Role::kEvaluator), "none");
}

TEST(ReplicaEnvTest, WithoutAStrategyGpusSayHowManyProcessesAPodRuns) {
  for (const auto& [gpus, expected] : {std::pair<api::Json, int>{8, 8}, {"4", 4}, {0, 1}}) {
    api::Json pod_template = testing::Template("pytorch");
    pod_template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = gpus;
    const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template);
    EXPECT_EQ(ProcessesPerPod(job.Build(), Role::kWorker), expected);
  }
}

TEST(ReplicaEnvTest, TorchrunStartsAProcessForEachAcceleratorOfAnyVendor) {
  for (const auto& [resource, expected] : {std::pair("amd.com/gpu", "8"),
                                           {"gpu.intel.com/xe", "8"},
                                           {"habana.ai/gaudi", "8"},
                                           {"rdma/hca", "1"}}) {
    for (const char* container : {"pytorch", "mine"}) {
      api::Json pod_template = testing::Template(container);
      pod_template["spec"]["containers"][0]["resources"]["limits"][resource] = 8;
      const auto job = Job("j").Workers(2).PodTemplate(Role::kWorker, pod_template);
      const Env env = EnvOf(job, Role::kWorker, 1);
      EXPECT_EQ(env.at("PET_NPROC_PER_NODE"), expected) << resource;
      EXPECT_EQ(env.at("WORLD_SIZE"), "2") << "as with NVIDIA's, of a program without torchrun";
    }
  }
}

// Its processes compute on the CPU there, or on NVIDIA's.
TEST(ReplicaEnvTest, TheBundledTrainerCountsNoOtherVendorsAccelerators) {
  api::Json pod_template = testing::Template("trainer");
  pod_template["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"] = 8;
  auto job = Job("j").Workers(1).Training().PodTemplate(Role::kWorker, pod_template);
  EXPECT_EQ(ProcessesPerPod(job.Build(), Role::kWorker), 1) << "also before it has its defaults";
  EXPECT_EQ(EnvOf(job, Role::kWorker, 0).at("LOCKSTEP_PROCESSES_PER_POD"), "1");
}

}  // namespace
}  // namespace lockstep::controller
