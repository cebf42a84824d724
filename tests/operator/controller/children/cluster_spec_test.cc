#include "operator/controller/children/cluster_spec.h"

#include <gtest/gtest.h>

#include "tests/support/builders.h"

namespace lockstep::controller {
namespace {

using api::Role;
using testing::Job;

std::string Config(const testing::JobBuilder& job, Role role, int index) {
  return ClusterSpec(job.BuildWithDefaults(), DnsAddresses()).TfConfig({role, index});
}

TEST(ClusterSpecTest, WorkersOnly) {
  EXPECT_EQ(Config(Job("j").Workers(2), Role::kWorker, 1),
            R"({"cluster":{"worker":["j-worker-0.j.default.svc:2222",)"
            R"("j-worker-1.j.default.svc:2222"]},)"
            R"("task":{"type":"worker","index":1},"environment":"cloud"})");
}

TEST(ClusterSpecTest, ChiefComesFirstThenPsThenWorker) {
  EXPECT_EQ(Config(Job("j").Chief().ParameterServers(1).Workers(1), Role::kChief, 0),
            R"({"cluster":{"chief":["j-chief-0.j.default.svc:2222"],)"
            R"("ps":["j-ps-0.j.default.svc:2222"],"worker":["j-worker-0.j.default.svc:2222"]},)"
            R"("task":{"type":"chief","index":0},"environment":"cloud"})");
}

TEST(ClusterSpecTest, OnlyTheEvaluatorSeesTheEvaluator) {
  const auto job = Job("j").Workers(1).Evaluator();
  EXPECT_EQ(Config(job, Role::kWorker, 0).find("evaluator"), std::string::npos);
  const auto own = nlohmann::json::parse(Config(job, Role::kEvaluator, 0));
  EXPECT_EQ(own["cluster"]["evaluator"][0], "j-evaluator-0.j.default.svc:2222");
  EXPECT_EQ(own["cluster"]["worker"].size(), 1U);
  EXPECT_EQ(own["task"]["type"], "evaluator");
}

TEST(ClusterSpecTest, AnElasticParameterServerJobIsSparseForWorkersAndServers) {
  const auto job = Job("j").Chief().ParameterServers(2).Workers(3).With([](api::TrainingJob& j) {
    j.spec.strategy.emplace().type = api::StrategyType::kParameterServer;
    j.spec.elastic = api::ElasticSpec{1, 5};
  });
  const auto worker = nlohmann::json::parse(Config(job, Role::kWorker, 2));
  EXPECT_EQ(worker["cluster"]["worker"].dump(), R"({"2":"j-worker-2.j.default.svc:2222"})");
  EXPECT_EQ(worker["cluster"]["ps"].size(), 2U);
  EXPECT_FALSE(worker["cluster"].contains("chief"));
  const auto server = nlohmann::json::parse(Config(job, Role::kParameterServer, 1));
  EXPECT_TRUE(server["cluster"]["worker"].empty());
  const auto chief = nlohmann::json::parse(Config(job, Role::kChief, 0));
  EXPECT_EQ(chief["cluster"]["worker"].size(), 3U);
}

}  // namespace
}  // namespace lockstep::controller
