#include "operator/local/container_process.h"

#include <gmock/gmock.h>

#include "api/v1/quantity.h"
#include "operator/local/memory_client.h"
#include "operator/local/process_kubelet.h"
#include "operator/local/volumes.h"

namespace lockstep::local {
namespace {

using kube::Object;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const SystemClock kSystemClock;

Object Pod() {
  return {{"metadata", {{"name", "p"}, {"namespace", "default"}, {"labels", {{"role", "chief"}}}}},
          {"status", {{"podIP", "127.0.0.9"}}}};
}

class ContainerProcessTest : public ::testing::Test {
 protected:
  absl::StatusOr<ProcessSpec> Make(const Object& container) {
    PathMap paths;
    paths.Add("/data", "/srv/d");
    return MakeProcess(Pod(), container, paths, host_, client_);
  }
  MemoryClient client_{kSystemClock};
  HostFacts host_{.env = {{"HOME", "/root"}, {"PATH", "/bin"}},
                  .program_dir = "/opt/bin",
                  .current_dir = "/here"};
};

TEST_F(ContainerProcessTest, MakesWhatTheImageWouldHaveStarted) {
  const auto process = Make({{"name", "c"},
                             {"command", {"run", "$(DIR)/x"}},
                             {"args", {"--n", "$(MISSING)", "$$(DIR)"}},
                             {"env", {{{"name", "DIR"}, {"value", "/data"}}}}});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_THAT(process->argv, ElementsAre("run", "/srv/d/x", "--n", "$(MISSING)", "$(DIR)"));
  EXPECT_EQ(process->env.at("DIR"), "/srv/d");
  EXPECT_EQ(process->env.at("HOME"), "/root");
  EXPECT_EQ(process->env.at("PATH"), "/bin:/opt/bin");
  EXPECT_EQ(process->working_dir, "/here");
}

// An installed `lockstep` may have another Python beside it than that of a virtual environment.
TEST_F(ContainerProcessTest, OnlyTheTrainerIsLookedForBesideThisProgramFirst) {
  const auto path_of = [&](const Object& command, const Object& env) {
    return Make({{"name", "c"}, {"command", command}, {"env", env}})->env.at("PATH");
  };
  EXPECT_EQ(path_of({"python3", "train.py"}, Object::array()), "/bin:/opt/bin");
  EXPECT_EQ(path_of({"python3", "train.py", "--out", "/x/lockstep-trainer-logs"}, Object::array()),
            "/bin:/opt/bin");
  EXPECT_EQ(path_of({"python3"}, {{{"name", "PATH"}, {"value", "/venv/bin"}}}),
            "/venv/bin:/opt/bin");
  for (const Object& command :
       {Object::array({"lockstep-trainer"}), Object::array({"env", "A=1", "lockstep-trainer"}),
        Object::array({"sh", "-c", "ulimit -c 0; exec lockstep-trainer"})}) {
    EXPECT_EQ(path_of(command, Object::array()), "/opt/bin:/bin") << command;
  }
}

TEST_F(ContainerProcessTest, AnOuterJobsVariablesAreNotPassedOn) {
  const std::vector<std::string> of_a_job = {
      "TF_CONFIG",
      "LOCKSTEP_JOB",
      "PET_NNODES",
      "RANK",
      "LOCAL_WORLD_SIZE",
      "JAX_PROCESS_ID",
      "COORDINATOR_ADDRESS",
      "TORCHELASTIC_USE_AGENT_STORE",
      "KUBEFLOW_TRAINER_SERVER_URL",
      "KUBEFLOW_TRAINER_SERVER_TOKEN",
  };
  for (const std::string& name : of_a_job) host_.env[name] = "outer";
  host_.env["LOCKSTEP_CUDA_PATH"] = "/cuda";
  host_.env["JAX_PLATFORMS"] = "cpu";
  const auto process = Make({{"name", "c"}, {"command", {"run"}}});
  ASSERT_TRUE(process.ok()) << process.status();
  for (const std::string& name : of_a_job) EXPECT_FALSE(process->env.contains(name)) << name;
  EXPECT_EQ(process->env.at("LOCKSTEP_CUDA_PATH"), "/cuda");
  EXPECT_EQ(process->env.at("JAX_PLATFORMS"), "cpu");
}

TEST_F(ContainerProcessTest, AProxyOfTheShellIsNotForThePodsOfTheJob) {
  host_.pod_hosts = {"127.77.0.1", "127.77.0.2"};
  const Object none = Object::array();
  const auto env_of = [&](const Environment& shell, const Object& own) {
    host_.env = shell;
    return Make({{"name", "c"}, {"command", {"run"}}, {"env", own}})->env;
  };
  const std::string ours = "localhost,127.0.0.1,127.0.0.0/8,127.77.0.1,127.77.0.2";
  for (const char* proxy : {"http_proxy", "HTTPS_PROXY", "grpc_proxy", "all_proxy"}) {
    const Environment env = env_of({{proxy, "http://p:1"}, {"no_proxy", "corp"}}, none);
    EXPECT_EQ(env.at(proxy), "http://p:1");
    EXPECT_EQ(env.at("no_proxy"), "corp," + ours) << proxy;
    EXPECT_EQ(env.at("NO_PROXY"), "corp," + ours) << proxy;
  }
  Environment env = env_of({{"http_proxy", "http://p:1"}}, none);
  EXPECT_EQ(env.at("no_proxy"), ours);
  EXPECT_FALSE(env.contains("no_grpc_proxy"));
  env = env_of({{"http_proxy", "http://p:1"}, {"NO_PROXY", "*"}, {"no_grpc_proxy", "corp"}}, none);
  EXPECT_EQ(env.at("no_proxy"), "*");
  EXPECT_EQ(env.at("NO_PROXY"), "*");
  EXPECT_EQ(env.at("no_grpc_proxy"), "corp," + ours);
  env = env_of({{"http_proxy", "http://p:1"}}, {{{"name", "no_proxy"}, {"value", "mine"}}});
  EXPECT_EQ(env.at("no_proxy"), "mine");
  EXPECT_FALSE(env_of({{"PATH", "/bin"}}, none).contains("no_proxy")) << "there is no proxy";
}

TEST_F(ContainerProcessTest, ReadsFieldsOfThePodAndKeysOfConfigMaps) {
  const Object map = {{"apiVersion", "v1"},
                      {"kind", "ConfigMap"},
                      {"metadata", {{"name", "m"}, {"namespace", "default"}}},
                      {"data", {{"k", "v"}}}};
  ASSERT_TRUE(client_.Create(kConfigMapKind, map).ok());
  const auto from = [](const char* name, Object source) {
    return Object{{"name", name}, {"valueFrom", std::move(source)}};
  };
  const auto process =
      Make({{"name", "c"},
            {"command", {"run"}},
            {"env",
             {from("IP", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}),
              from("ROLE", {{"fieldRef", {{"fieldPath", "metadata.labels['role']"}}}}),
              from("K", {{"configMapKeyRef", {{"name", "m"}, {"key", "k"}}}})}}});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->env.at("IP"), "127.0.0.9");
  EXPECT_EQ(process->env.at("ROLE"), "chief");
  EXPECT_EQ(process->env.at("K"), "v");
}

TEST_F(ContainerProcessTest, AResourcesNameIsNoPath) {
  const auto of = [this](const char* resource) {
    const Object source = {{"resourceFieldRef", {{"resource", resource}}}};
    return Make({{"name", "c"},
                 {"command", {"run"}},
                 {"resources", {{"limits", {{"example.org/a~b", "2"}}}}},
                 {"env", {{{"name", "N"}, {"valueFrom", source}}}}});
  };
  const auto process = of("limits.example.org/a~b");
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(process->env.at("N"), "2");
  EXPECT_THAT(std::string(of("limits.~").status().message()),
              HasSubstr("the container sets no resources.limits.~"));
}

TEST_F(ContainerProcessTest, WithoutCommandNamesTheContainer) {
  const auto process = Make({{"name", "c"}, {"image", "x"}});
  EXPECT_TRUE(absl::IsInvalidArgument(process.status()));
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("container c: no command"));
}

TEST_F(ContainerProcessTest, AMissingConfigMapIsNamed) {
  const auto process =
      Make({{"name", "c"},
            {"command", {"run"}},
            {"env",
             {{{"name", "K"},
               {"valueFrom", {{"configMapKeyRef", {{"name", "gone"}, {"key", "k"}}}}}}}}});
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("env K: no ConfigMap \"gone\""));
}

TEST(QuantityTest, ReadsKubernetesQuantities) {
  EXPECT_DOUBLE_EQ(*api::ParseQuantity("500m"), 0.5);
  EXPECT_DOUBLE_EQ(*api::ParseQuantity("4Gi"), 4.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(*api::ParseQuantity(2), 2);
  for (const char* text : {"", "x", "1q", "1 Gi", "nan"}) {
    EXPECT_FALSE(api::ParseQuantity(text).ok()) << text;
  }
}

Object PodWithVolume(Object volume) {
  volume["name"] = "v";
  return {{"metadata", {{"name", "p"}, {"namespace", "default"}}},
          {"spec", {{"volumes", Object::array({std::move(volume)})}}}};
}

TEST(VolumesTest, EveryKindHasItsPlace) {
  const VolumeOptions options{.work_dir = "/w", .current_dir = "/here", .folders = {}};
  const auto place = [&](const Object& volume) {
    const auto located = LocateVolumes(PodWithVolume(volume), options);
    return located.ok() ? located->at("v") : std::string(located.status().message());
  };
  EXPECT_EQ(place({{"emptyDir", Object::object()}}), "/w/volumes/v");
  EXPECT_EQ(place({{"persistentVolumeClaim", {{"claimName", "c"}}}}), "/w/volumes/c");
  EXPECT_EQ(place({{"hostPath", {{"path", "/abs"}}}}), "/abs");
  EXPECT_EQ(place({{"hostPath", {{"path", "rel"}}}}), "/here/rel");
  EXPECT_THAT(place({{"nfs", Object::object()}}), HasSubstr("volume \"v\" is of type nfs"));
}

TEST(VolumesTest, AFolderFromTheCommandLineComesFirst) {
  const VolumeOptions options{
      .work_dir = "/w", .current_dir = "/here", .folders = {{"v", "/mine"}}};
  const auto located = LocateVolumes(PodWithVolume({{"nfs", Object::object()}}), options);
  ASSERT_TRUE(located.ok()) << located.status();
  EXPECT_EQ(located->at("v"), "/mine");
}

TEST(VolumesTest, AMountOfNoVolumeIsRefusedByName) {
  const auto paths =
      MapMounts({{"name", "c"}, {"volumeMounts", {{{"name", "gone"}, {"mountPath", "/x"}}}}}, {});
  EXPECT_THAT(std::string(paths.status().message()), HasSubstr("\"gone\""));
}

}  // namespace
}  // namespace lockstep::local
