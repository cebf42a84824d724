#include "trainer/identity/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "api/v1/names.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/identity/identities.h"
#include "trainer/rendezvous/identity_roster.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTwoWorkers[] =
    R"({"cluster":{"worker":["a:2222","b:2222"]},"task":{"type":"worker","index":1}})";

class Environment {
 public:
  Environment() {
    variables_[api::kEnvConfig] =
        api::TrainingSpecToJson(lockstep::testing::MnistTraining()).dump();
  }
  Environment& Set(const std::string& name, const std::string& value) {
    variables_[name] = value;
    return *this;
  }
  Environment& Unset(const std::string& name) {
    variables_.erase(name);
    return *this;
  }
  absl::StatusOr<Identity> Read() const {
    return ReadIdentity([this](const std::string& name) -> std::optional<std::string> {
      const auto at = variables_.find(name);
      return at == variables_.end() ? std::nullopt : std::optional(at->second);
    });
  }

 private:
  std::map<std::string, std::string> variables_;
};

TEST(ParseTfConfigTest, ReadsWhatTheOperatorWrites) {
  const auto spec = ParseTfConfig(
      R"({"cluster":{"chief":["mnist-chief-0.mnist.ns.svc:2222"],"worker":["w0:2222","w1:2222"]},)"
      R"("task":{"type":"chief","index":0},"environment":"cloud"})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->chief, ElementsAre("mnist-chief-0.mnist.ns.svc:2222"));
  EXPECT_THAT(spec->worker, ElementsAre("w0:2222", "w1:2222"));
  EXPECT_EQ(spec->task_role, api::Role::kChief);
  EXPECT_EQ(spec->task_index, 0);
}

TEST(ParseTfConfigTest, ReadsSparseMapsIndexStringsAndIpv6) {
  const auto spec = ParseTfConfig(R"({"cluster":{"worker":{"2":"[fd00::1]:2222"},"ps":["p:1"]},)"
                                  R"("task":{"type":"worker","index":"2"}})");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->worker, ElementsAre("", "", "[fd00::1]:2222"));
  EXPECT_EQ(spec->task_index, 2);
}

struct BadTfConfig {
  std::string text, complaint;
};

class BadTfConfigTest : public ::testing::TestWithParam<BadTfConfig> {};

TEST_P(BadTfConfigTest, IsRefusedNamingTheField) {
  const auto spec = ParseTfConfig(GetParam().text);
  ASSERT_FALSE(spec.ok()) << GetParam().text;
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(spec.status().message()), HasSubstr(GetParam().complaint));
}

std::string WithCluster(const std::string& cluster) {
  return R"({"cluster":)" + cluster + R"(,"task":{"type":"worker","index":0}})";
}
std::string WithTask(const std::string& task) {
  return R"({"cluster":{"worker":["a:1","b:1"]},"task":)" + task + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadTfConfigTest,
    ::testing::Values(
        BadTfConfig{"", "TF_CONFIG is not JSON"}, BadTfConfig{"{\"cluster\":", "not JSON"},
        BadTfConfig{"{\"cluster\": 1e999}", "not JSON"},
        BadTfConfig{"[1]", "found [1], expected an object"},
        BadTfConfig{R"({"task":{"type":"worker","index":0}})", "cluster is missing"},
        BadTfConfig{WithCluster("{}"), "cluster: found {}"},
        BadTfConfig{WithCluster(R"({"master":["a:1"]})"), "cluster.master: unknown role"},
        BadTfConfig{WithCluster(R"({"worker":"a:1"})"), "cluster.worker: found \"a:1\""},
        BadTfConfig{WithCluster(R"({"worker":[7]})"), "cluster.worker[0]: found 7"},
        BadTfConfig{WithCluster(R"({"worker":["a"]})"), "found \"a\", expected host:port"},
        BadTfConfig{WithCluster(R"({"worker":["a:0"]})"), "found \"a:0\""},
        BadTfConfig{WithCluster(R"({"worker":["a:65536"]})"), "found \"a:65536\""},
        BadTfConfig{WithCluster(R"({"worker":[":1"]})"), "found \":1\""},
        BadTfConfig{WithCluster(R"({"worker":["fd00::1:1"]})"), "found \"fd00::1:1\""},
        BadTfConfig{WithCluster(R"({"worker":["grpc://a:1"]})"), "found \"grpc://a:1\""},
        BadTfConfig{WithCluster(R"({"worker":{"x":"a:1"}})"), "found the key \"x\""},
        BadTfConfig{WithCluster(R"({"worker":{"-1":"a:1"}})"), "found the key \"-1\""},
        BadTfConfig{WithCluster(R"({"worker":["a:1","a:1"]})"),
                    "cluster.worker[1] and cluster.worker[0] are both a:1"},
        BadTfConfig{WithCluster(R"({"worker":["a:1"],"chief":["a:1"]})"), "are both a:1"},
        BadTfConfig{WithCluster(R"({"worker":["a:1"],"chief":["b:1","c:1"]})"),
                    "cluster.chief has 2 addresses"},
        BadTfConfig{R"({"cluster":{"worker":["a:1"]}})", "task: found null"},
        BadTfConfig{WithTask(R"({"index":0})"), "task.type: found null"},
        BadTfConfig{WithTask(R"({"type":"boss","index":0})"), "task.type: found \"boss\""},
        BadTfConfig{WithTask(R"({"type":"worker"})"), "task.index: found null"},
        BadTfConfig{WithTask(R"({"type":"worker","index":2})"),
                    "task.index: found 2, expected the index of one of the 2 addresses"},
        BadTfConfig{WithTask(R"({"type":"worker","index":-1})"), "task.index: found -1"},
        BadTfConfig{WithTask(R"({"type":"worker","index":1.5})"), "task.index: found 1.5"},
        BadTfConfig{WithTask(R"({"type":"chief","index":0})"), "0 addresses of cluster.chief"}));

TEST(ReadIdentityTest, RanksChiefsBeforeWorkersWithTheirProcesses) {
  const auto id =
      Environment()
          .Set(api::kEnvTfConfig, R"({"cluster":{"chief":["c:1"],"worker":["a:1","b:1"]},)"
                                  R"("task":{"type":"worker","index":1}})")
          .Set(api::kEnvRole, "worker")
          .Set(api::kEnvIndex, "1")
          .Set(api::kEnvProcessesPerPod, "2")
          .Set(kEnvLocalRank, "1")
          .Set(api::kEnvAttempt, "3")
          .Read();
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(id->Pods(), 3);
  EXPECT_EQ(id->World(), 6);
  EXPECT_EQ(id->PodRank(), 2);
  EXPECT_EQ(id->local_rank, 1);
  EXPECT_EQ(id->attempt, 3);
  EXPECT_FALSE(id->IsLeader());
  EXPECT_EQ(id->LeaderAddress(), "c:1");
  const RosterConfig roster = RosterFor(*id);
  EXPECT_THAT(roster.slots,
              ElementsAre(Slot{"chief", 0, 0}, Slot{"chief", 0, 1}, Slot{"worker", 0, 0},
                          Slot{"worker", 0, 1}, Slot{"worker", 1, 0}, Slot{"worker", 1, 1}));
}

TEST(ReadIdentityTest, IsAWorldOfOneWithoutTfConfigAndWithoutPeers) {
  const auto id = Environment().Read();
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(id->World(), 1);
  EXPECT_TRUE(id->IsLeader());
  EXPECT_EQ(ListenAddress(*id), "127.0.0.1:0");
}

TEST(ReadIdentityTest, NeighbouringRanksFormAPipelineOfStages) {
  const auto read = [](const std::string& strategy) {
    return Environment()
        .Set(api::kEnvTfConfig, kTwoWorkers)
        .Set(api::kEnvProcessesPerPod, "3")
        .Set(api::kEnvStrategy, strategy)
        .Read();
  };
  const auto id = read(R"({"stages":2})");
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(id->World(), 6);
  EXPECT_EQ(id->Stages(), 2);
  EXPECT_EQ(id->BatchParts(), 3);
  std::vector<int> stages;
  for (int rank = 0; rank < id->World(); ++rank) stages.push_back(id->StageOf(rank));
  EXPECT_THAT(stages, ElementsAre(0, 1, 0, 1, 0, 1));
  const auto whole = read("{}");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->Stages(), 1);
  EXPECT_EQ(whole->BatchParts(), 6);
  EXPECT_EQ(whole->StageOf(4), 0);
}

TEST(ReadIdentityTest, StagesThatDoNotDivideTheProcessesAreRefused) {
  const auto complaint = [](const std::string& strategy) {
    const auto id =
        Environment().Set(api::kEnvTfConfig, kTwoWorkers).Set(api::kEnvStrategy, strategy).Read();
    EXPECT_EQ(id.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(id.status().message());
  };
  EXPECT_EQ(
      complaint(R"({"stages":3})"),
      "LOCKSTEP_STRATEGY: found 3 stages, expected a number that divides 2, the processes that "
      "train");
  EXPECT_EQ(complaint(R"({"type":"CentralStorage","stages":2})"),
            "LOCKSTEP_STRATEGY: found 2 stages with strategy CentralStorage, which has none");
  EXPECT_THAT(complaint(R"({"stages":65})"), HasSubstr("strategy.stages: found 65"));
  EXPECT_EQ(complaint(R"({"type":"CentralStorage","sharding":"ZeRO1"})"),
            "LOCKSTEP_STRATEGY: found sharding ZeRO1 with strategy CentralStorage and 1 stages, "
            "expected Mirrored or MultiWorkerMirrored, and 1");
  EXPECT_THAT(complaint(R"({"stages":2,"sharding":"ZeRO1"})"), HasSubstr("and 2 stages"));
}

TEST(ReadIdentityTest, MissingOrContradictingVariablesAreNamed) {
  const auto complaint = [](const absl::StatusOr<Identity>& id) {
    EXPECT_EQ(id.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(id.status().message());
  };
  EXPECT_THAT(complaint(Environment().Set(api::kEnvRole, "worker").Set(api::kEnvIndex, "1").Read()),
              HasSubstr("TF_CONFIG is not set, but LOCKSTEP_ROLE says that this is worker 1"));
  EXPECT_THAT(complaint(Environment().Unset(api::kEnvConfig).Read()),
              HasSubstr("LOCKSTEP_CONFIG is not set"));
  EXPECT_THAT(complaint(Environment().Set(api::kEnvConfig, "{").Read()),
              HasSubstr("LOCKSTEP_CONFIG is not JSON"));
  EXPECT_THAT(complaint(Environment().Set(api::kEnvConfig, R"({"epoch":1})").Read()),
              HasSubstr("LOCKSTEP_CONFIG: "));
  EXPECT_THAT(
      complaint(Environment().Set(api::kEnvTfConfig, kTwoWorkers).Set(api::kEnvIndex, "0").Read()),
      HasSubstr("LOCKSTEP_INDEX is 0, but TF_CONFIG's task.index is 1"));
  EXPECT_THAT(
      complaint(
          Environment().Set(api::kEnvTfConfig, kTwoWorkers).Set(api::kEnvRole, "chief").Read()),
      HasSubstr("LOCKSTEP_ROLE is \"chief\", but TF_CONFIG's task.type is \"worker\""));
  EXPECT_THAT(complaint(Environment().Set(api::kEnvProcessesPerPod, "0").Read()),
              HasSubstr("LOCKSTEP_PROCESSES_PER_POD: found \"0\""));
  EXPECT_THAT(complaint(Environment().Set(kEnvLocalRank, "1").Read()),
              HasSubstr("LOCKSTEP_LOCAL_RANK: found \"1\""));
  EXPECT_THAT(complaint(Environment()
                            .Set(api::kEnvTfConfig, R"({"cluster":{"worker":{"1":"a:1"}},)"
                                                    R"("task":{"type":"worker","index":1}})")
                            .Read()),
              HasSubstr("cluster.worker lacks index 0"));
}

TEST(ReadIdentityTest, ParameterServersAreAllKnownAndAnEvaluatorKnowsWhomToReportTo) {
  const auto read = [](const std::string& cluster, const std::string& role) {
    const std::string index = role == "worker" ? "2" : "0";
    return Environment()
        .Set(api::kEnvStrategy, R"({"type":"ParameterServer"})")
        .Set(api::kEnvTfConfig, R"({"cluster":{)" + cluster + R"(},"task":{"type":")" + role +
                                    R"(","index":)" + index + "}}")
        .Read()
        .status();
  };
  const std::string worker = R"("worker":{"2":"a:1"},)";
  EXPECT_TRUE(read(worker + R"("ps":["p:1","q:1"])", "worker").ok());
  EXPECT_THAT(read(R"("worker":{"2":"a:1"})", "worker").message(), HasSubstr("cluster has no ps"));
  EXPECT_THAT(read(worker + R"("ps":{"1":"q:1"})", "worker").message(),
              HasSubstr("cluster.ps lacks index 0 of 2"));
  const std::string evaluator = R"("ps":["p:1"],"evaluator":["e:1"],"worker":)";
  EXPECT_TRUE(read(evaluator + R"(["a:1"])", "evaluator").ok());
  EXPECT_THAT(read(evaluator + R"({"2":"a:1"})", "evaluator").message(),
              HasSubstr("cluster.worker lacks index 0, to which an Evaluator reports"));
  EXPECT_THAT(Environment()
                  .Set(api::kEnvStrategy, R"({"type":"ParameterServer"})")
                  .Read()
                  .status()
                  .message(),
              HasSubstr("cluster has no ps"));
}

TEST(ClusterHashTest, IsOfTheJobNotOfTheTaskOrTheAddresses) {
  const Identity first = lockstep::testing::Worker(0, {"a:1", "b:1"});
  EXPECT_EQ(first.ClusterHash(), lockstep::testing::Worker(1, {"c:1", "d:1"}).ClusterHash());
  EXPECT_NE(first.ClusterHash(), lockstep::testing::Worker(0, {"a:1"}).ClusterHash());
  Identity other = first;
  other.attempt = 1;
  EXPECT_NE(first.ClusterHash(), other.ClusterHash());
  other = first;
  other.job_uid = "another";
  EXPECT_NE(first.ClusterHash(), other.ClusterHash());
  other = first;
  EXPECT_THAT(first.ClusterHash(), HasSubstr("protocol="));
  other.training.seed = 2;
  EXPECT_NE(first.ClusterHash(), other.ClusterHash());
  other = first;
  other.strategy.stages = 2;
  EXPECT_THAT(other.ClusterHash(), HasSubstr(" processesPerPod=1 stages=2 training="));
}

TEST(ClusterHashTest, ProcessesThatShardStateDoNotTrainWithOthers) {
  Identity sharded = lockstep::testing::Worker(0, {"a:1", "b:1"});
  sharded.strategy.sharding = api::Sharding::kZero1;
  EXPECT_THAT(sharded.ClusterHash(), HasSubstr(" processesPerPod=1 sharding=ZeRO1 training="));
}

// Pods may have trainers of two versions while a job's image is replaced.
TEST(ClusterHashTest, WithoutStagesIsThatOfATrainerThatKnowsNone) {
  EXPECT_THAT(lockstep::testing::Worker(0, {"a:1", "b:1"}).ClusterHash(),
              HasSubstr(" processesPerPod=1 training="));
}

TEST(ClusterHashTest, FoldersMayDifferBetweenPods) {
  const Identity first = lockstep::testing::Worker(0, {"a:1", "b:1"});
  Identity other = first;
  other.training.dataset.path = "/elsewhere/mnist";
  other.training.initial_weights.path = "/elsewhere/weights.safetensors";
  other.training.checkpoint.directory = "/elsewhere/checkpoints";
  other.training.checkpoint.export_to = "/elsewhere/model.onnx";
  other.training.summaries.directory = "/elsewhere/logs";
  EXPECT_EQ(first.ClusterHash(), other.ClusterHash());
  other.training.checkpoint.every_steps = first.training.checkpoint.every_steps + 1;
  EXPECT_NE(first.ClusterHash(), other.ClusterHash());
}

TEST(ListenAddressTest, PrefersThePodsOwnAddress) {
  Identity leader = lockstep::testing::Worker(0, {"mnist-worker-0.mnist.ns.svc:2222"});
  EXPECT_EQ(ListenAddress(leader), ":2222");
  leader.pod_ip = "10.0.0.7";
  EXPECT_EQ(ListenAddress(leader), "10.0.0.7:2222");
  leader.pod_ip = "fd00::7";
  EXPECT_EQ(ListenAddress(leader), "[fd00::7]:2222");
}

TEST(IdentityTest, KnowsWhetherAnOperatorCreatedThePodAndWhenItsSupervisorStarted) {
  const auto by_hand = Environment().Read();
  ASSERT_TRUE(by_hand.ok()) << by_hand.status();
  EXPECT_FALSE(by_hand->operated);
  EXPECT_EQ(by_hand->grace_seconds, 30);
  EXPECT_FALSE(by_hand->token.present());
  const auto operated = Environment()
                            .Set(api::kEnvRestartScope, "InPlace")
                            .Set(kEnvPodStarted, "1700000000000000000")
                            .Set(kEnvProcessNumber, "3")
                            .Set(api::kEnvGraceSeconds, "120")
                            .Read();
  ASSERT_TRUE(operated.ok()) << operated.status();
  EXPECT_TRUE(operated->operated);
  EXPECT_EQ(operated->incarnation.pod_started, 1'700'000'000'000'000'000);
  EXPECT_EQ(operated->incarnation.process_number, 3);
  EXPECT_EQ(operated->grace_seconds, 120);
  for (const char* bad : {"", "-1", "1x", "99999999999999999999"}) {
    for (const char* name : {kEnvPodStarted, kEnvProcessNumber}) {
      const auto refused = Environment().Set(name, bad).Read();
      EXPECT_THAT(std::string(refused.status().message()), HasSubstr(name)) << bad;
    }
  }
}

Environment OfTwoWorkers() {
  return Environment()
      .Set(api::kEnvConfig, R"({"model":{"name":"core-cnn"},"dataset":{"format":"synthetic"},)"
                            R"("batchSize":{"global":64},"epochs":1,)"
                            R"("checkpoint":{"directory":"/checkpoints"}})")
      .Set(api::kEnvTfConfig,
           R"({"cluster":{"worker":["j-worker-0.j.ns.svc:2222","j-worker-1.j.ns.svc:2222"]},)"
           R"("task":{"type":"worker","index":1}})");
}

TEST(IdentityTest, AProcessThatStartsAgainKnowsTheGroupsNewSize) {
  const auto before = OfTwoWorkers().Read();
  const auto after = OfTwoWorkers().Set(kEnvWorkers, "3").Read();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->World(), 3);
  EXPECT_EQ(after->index, 1);
  EXPECT_EQ(after->cluster.worker[2], "j-worker-2.j.ns.svc:2222");
  EXPECT_EQ(after->ClusterHash(), before->WithWorkers(3).ClusterHash());
  EXPECT_NE(after->ClusterHash(), before->ClusterHash());
  EXPECT_EQ(after->WithWorkers(2).ClusterHash(), before->ClusterHash());
}

TEST(IdentityTest, ASizeWithoutAPlaceForTheProcessIsRefused) {
  const auto refused = OfTwoWorkers().Set(kEnvWorkers, "1").Read();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(kEnvWorkers));
}

TEST(IdentityTest, OnlyAGroupThatResumesFromACheckpointIsResizable) {
  EXPECT_TRUE(OfTwoWorkers().Read()->IsResizable());
  EXPECT_FALSE(Environment().Read()->IsResizable()) << "no folder for checkpoints";
  EXPECT_FALSE(
      OfTwoWorkers().Set(api::kEnvStrategy, R"({"type":"CentralStorage"})").Read()->IsResizable());
  EXPECT_FALSE(OfTwoWorkers().Set(api::kEnvStrategy, R"({"stages":2})").Read()->IsResizable());
  EXPECT_FALSE(
      OfTwoWorkers().Set(api::kEnvStrategy, R"({"sharding":"ZeRO1"})").Read()->IsResizable());
}

TEST(IdentityTest, ATokenThatCannotBeReadIsRefusedByName) {
  const lockstep::TempDirectory folder;
  const auto read = [&] {
    return Environment().Set(api::kEnvTokenFile, folder.At("token")).Read();
  };
  EXPECT_THAT(std::string(read().status().message()), HasSubstr(folder.At("token")));
  lockstep::WriteTextFile(folder.At("token"), "short\n");
  EXPECT_THAT(std::string(read().status().message()), HasSubstr("found a token of 5 bytes"));
  lockstep::WriteTextFile(folder.At("token"), "0123456789abcdef\n");
  const auto identity = read();
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->token.Prove("what", "nonce", ""),
            api::JobToken("0123456789abcdef").Prove("what", "nonce", ""));
}

TEST(HostPortTest, BracketsIpv6) {
  EXPECT_EQ(HostPort("10.0.0.1", "8080"), "10.0.0.1:8080");
  EXPECT_EQ(HostPort("fd00::5", "8080"), "[fd00::5]:8080");
  EXPECT_EQ(HostPort("[fd00::5]", "8080"), "[fd00::5]:8080");
}

}  // namespace
}  // namespace lockstep::train
