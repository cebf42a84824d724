// The objects that keep strangers away: the token's Secret, and the NetworkPolicy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "api/v1/job_token.h"
#include "operator/controller/children/build_network_policy.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/build_token_secret.h"
#include "tests/support/builders.h"
#include "tests/support/controller_uid.h"

namespace lockstep::controller {
namespace {

using api::Json;
using api::Role;
using testing::Job;

api::TrainingJob Trains() {
  return Job("mnist").Namespace("ml").Uid("u-1").Workers(1).Training().BuildWithDefaults();
}

Json PodWithToken(const api::TrainingJob& job) {
  Json pod = BuildPod(ClusterSpec(job, DnsAddresses()), {}, {Role::kWorker, 0}, 0);
  MountToken(job, {Role::kWorker, 0}, 0, {}, pod);
  return pod;
}

// The entry of a list with that name.
Json Named(const Json& list, const std::string& name) {
  const auto found = std::ranges::find_if(
      list, [&](const Json& entry) { return kube::TextMember(entry, "name") == name; });
  return found == list.end() ? Json() : *found;
}

TEST(BuildTokenSecretTest, IsImmutableAndTheJobs) {
  const Json secret = BuildTokenSecret(Trains(), "0123456789abcdef", false);
  EXPECT_EQ(kube::KeyOf(secret), (kube::Key{"ml", "mnist-token-u-1"}));
  EXPECT_EQ(kube::ControllerUid(secret), "u-1");
  EXPECT_EQ(secret["immutable"], true);
  EXPECT_EQ(secret["data"].size(), 1U);
  EXPECT_EQ(secret["data"]["token"], "MDEyMzQ1Njc4OWFiY2RlZg==");
}

TEST(BuildTokenSecretTest, OneWithABearerIsAnother) {
  const Json secret = BuildTokenSecret(Trains(), "0123456789abcdef", true);
  EXPECT_EQ(kube::KeyOf(secret), (kube::Key{"ml", "mnist-report-token-u-1"}));
  EXPECT_EQ(secret["data"].size(), 2U);
  EXPECT_EQ(secret["data"]["token"], "MDEyMzQ1Njc4OWFiY2RlZg==");
  EXPECT_EQ(secret["data"]["report-bearer"],
            absl::Base64Escape(api::JobToken("0123456789abcdef").ReportBearer()));
}

TEST(BuildTokenSecretTest, AJobOfTheSameNameHasAnother) {
  EXPECT_NE(TokenSecretName(Job("j").Uid("a").Workers(1).Build(), false),
            TokenSecretName(Job("j").Uid("b").Workers(1).Build(), false));
}

TEST(BuildTokenSecretTest, TheLongestNameIsWithinAPathsLimits) {
  const auto job = Job(std::string(54, 'j')).Uid(std::string(36, 'u')).Workers(1).Build();
  EXPECT_LE(TokenSecretName(job, true).size(), 253U);
}

TEST(MountTokenTest, TheMainContainerReadsItAndNoOther) {
  Json tmpl = testing::Template("trainer");
  tmpl["spec"]["containers"].push_back({{"name", "sidecar"}, {"image", "s"}});
  const Json pod = PodWithToken(Job("mnist")
                                    .Uid("u-1")
                                    .Workers(1)
                                    .PodTemplate(Role::kWorker, tmpl)
                                    .Training()
                                    .BuildWithDefaults());
  const Json& spec = pod["spec"];
  EXPECT_EQ(Named(spec["volumes"], "lockstep-token")["secret"].dump(),
            R"({"defaultMode":288,"secretName":"mnist-token-u-1"})")
      << "0440";
  const Json& trainer = spec["containers"][0];
  EXPECT_EQ(Named(trainer["volumeMounts"], "lockstep-token").dump(),
            R"({"mountPath":"/var/run/secrets/training.lockstep.dev","name":"lockstep-token",)"
            R"("readOnly":true})");
  EXPECT_EQ(Named(trainer["env"], "LOCKSTEP_TOKEN_FILE")["value"],
            "/var/run/secrets/training.lockstep.dev/token");
  const Json& sidecar = spec["containers"][1];
  EXPECT_FALSE(sidecar.contains("volumeMounts"));
  EXPECT_TRUE(Named(sidecar["env"], "LOCKSTEP_TOKEN_FILE").is_null());
  EXPECT_EQ(pod["metadata"]["annotations"]["training.lockstep.dev/token-secret"],
            "mnist-token-u-1");
}

Json PodThatReports(const api::TrainingJob& job, const Replica& replica, Reporting reporting) {
  Json pod = BuildPod(ClusterSpec(job, DnsAddresses()), {}, replica, 3);
  MountToken(job, replica, 3, reporting, pod);
  return pod;
}

TEST(MountTokenTest, AProgramOfTheUsersIsToldWhereToReport) {
  const auto job = Job("mnist").Namespace("ml").Uid("u-1").Workers(1).BuildWithDefaults();
  const auto with = [&job](const Reporting& reporting) {
    return PodThatReports(job, {Role::kWorker, 0}, reporting);
  };
  const Json pod = with({"http://op.lockstep-system.svc:8082", "c0ffee"});
  const Json& env = pod["spec"]["containers"][0]["env"];
  EXPECT_EQ(Named(env, "KUBEFLOW_TRAINER_SERVER_URL")["value"],
            "http://op.lockstep-system.svc:8082/apis/training.lockstep.dev/v1/namespaces/ml/"
            "trainingjobs/mnist/attempts/3/status");
  EXPECT_EQ(Named(env, "KUBEFLOW_TRAINER_SERVER_TOKEN")["value"],
            "/var/run/secrets/training.lockstep.dev/report-bearer");
  EXPECT_EQ(Named(pod["spec"]["volumes"], "lockstep-token")["secret"]["secretName"],
            "mnist-report-token-u-1");
  EXPECT_EQ(ObservePod(pod)->report_channel, "c0ffee");
  const Json without = with({"http://op", ""});
  EXPECT_TRUE(
      Named(without["spec"]["containers"][0]["env"], "KUBEFLOW_TRAINER_SERVER_URL").is_null());
  EXPECT_EQ(Named(without["spec"]["volumes"], "lockstep-token")["secret"]["secretName"],
            "mnist-token-u-1");
  EXPECT_EQ(ObservePod(without)->report_channel, "");
}

TEST(MountTokenTest, OnlyAProgramThatLeadsOrKnowsItsRankIsToldWhereToReport) {
  const auto is_told = [](const char* container, const Replica& replica) {
    const api::Json tmpl = testing::Template(container);
    const auto job = Job("j")
                         .Workers(2)
                         .ParameterServers(1)
                         .PodTemplate(Role::kWorker, tmpl)
                         .PodTemplate(Role::kParameterServer, tmpl)
                         .BuildWithDefaults();
    const Json pod = PodThatReports(job, replica, {"http://op", "c0ffee"});
    EXPECT_EQ(ObservePod(pod)->report_channel, "c0ffee") << "all of an attempt have it";
    return !Named(pod["spec"]["containers"][0]["env"], "KUBEFLOW_TRAINER_SERVER_URL").is_null();
  };
  for (const char* container : {"tensorflow", "jax", "pytorch", "main"}) {
    const bool knows_rank = std::string(container) == "pytorch" || std::string(container) == "main";
    EXPECT_TRUE(is_told(container, {Role::kWorker, 0})) << container;
    EXPECT_EQ(is_told(container, {Role::kWorker, 1}), knows_rank) << container;
    EXPECT_FALSE(is_told(container, {Role::kParameterServer, 0})) << container;
  }
}

TEST(MountTokenTest, AFileThatTheTemplateNamesStays) {
  Json tmpl = testing::Template("trainer");
  tmpl["spec"]["containers"][0]["env"] = {{{"name", "LOCKSTEP_TOKEN_FILE"}, {"value", "/mine"}}};
  const Json pod = PodWithToken(
      Job("j").Workers(1).PodTemplate(Role::kWorker, tmpl).Training().BuildWithDefaults());
  EXPECT_EQ(Named(pod["spec"]["containers"][0]["env"], "LOCKSTEP_TOKEN_FILE")["value"], "/mine");
}

TEST(MountTokenTest, TheVolumeTakesANameThatIsFree) {
  Json tmpl = testing::Template("trainer");
  tmpl["spec"]["volumes"] = {{{"name", "lockstep-token"}, {"emptyDir", Json::object()}},
                             {{"name", "lockstep-token-1"}, {"emptyDir", Json::object()}}};
  const Json pod = PodWithToken(
      Job("j").Workers(1).PodTemplate(Role::kWorker, tmpl).Training().BuildWithDefaults());
  const Json& spec = pod["spec"];
  EXPECT_TRUE(Named(spec["volumes"], "lockstep-token").contains("emptyDir"));
  EXPECT_TRUE(Named(spec["volumes"], "lockstep-token-2").contains("secret"));
  EXPECT_EQ(Named(spec["containers"][0]["volumeMounts"], "lockstep-token-2")["mountPath"],
            "/var/run/secrets/training.lockstep.dev");
}

TEST(MountTokenTest, WhatTheTemplateMountsAtItsPlaceStays) {
  for (const char* path :
       {"/var/run/secrets/training.lockstep.dev", "/var/run/secrets/training.lockstep.dev/"}) {
    Json tmpl = testing::Template("trainer");
    tmpl["spec"]["volumes"] = {{{"name", "mine"}, {"secret", {{"secretName", "my-token"}}}}};
    tmpl["spec"]["containers"][0]["volumeMounts"] = {{{"name", "mine"}, {"mountPath", path}}};
    const Json pod = PodWithToken(
        Job("j").Workers(1).PodTemplate(Role::kWorker, tmpl).Training().BuildWithDefaults());
    const Json& spec = pod["spec"];
    EXPECT_TRUE(Named(spec["volumes"], "lockstep-token").is_null()) << path;
    EXPECT_TRUE(Named(spec["containers"][0]["volumeMounts"], "lockstep-token").is_null()) << path;
    EXPECT_EQ(Named(spec["containers"][0]["env"], "LOCKSTEP_TOKEN_FILE")["value"],
              "/var/run/secrets/training.lockstep.dev/token")
        << path << ": without it the trainer would believe everybody";
    const Json own =
        PodThatReports(Job("j").Workers(1).PodTemplate(Role::kWorker, tmpl).BuildWithDefaults(),
                       {Role::kWorker, 0}, {"http://op", "c0ffee"});
    EXPECT_TRUE(Named(own["spec"]["containers"][0]["env"], "KUBEFLOW_TRAINER_SERVER_URL").is_null())
        << "it holds no bearer";
  }
}

TEST(BuildNetworkPolicyTest, LetsInPeersTheOperatorAndScrapers) {
  const Json policy = BuildNetworkPolicy(
      Trains(), {.operator_namespace = "lockstep-system", .scraper_namespace = "monitoring"});
  EXPECT_EQ(kube::KeyOf(policy), (kube::Key{"ml", "mnist-u-1"}));
  EXPECT_EQ(kube::ControllerUid(policy), "u-1");
  EXPECT_EQ(policy["spec"], Json::parse(R"({
    "podSelector": {"matchLabels": {"training.lockstep.dev/job-uid": "u-1"}},
    "policyTypes": ["Ingress"],
    "ingress": [
      {"from": [{"podSelector": {"matchLabels": {"training.lockstep.dev/job-uid": "u-1"}}}]},
      {"from": [{"namespaceSelector": {"matchLabels":
          {"kubernetes.io/metadata.name": "lockstep-system"}}}],
       "ports": [{"protocol": "TCP", "port": 2222}]},
      {"from": [{"namespaceSelector": {"matchLabels":
          {"kubernetes.io/metadata.name": "monitoring"}}}],
       "ports": [{"protocol": "TCP", "port": 8080}]}]})"));
}

TEST(BuildNetworkPolicyTest, TheOperatorIsNotLetInToAJobThatItDoesNotAsk) {
  const Json policy = BuildNetworkPolicy(
      Job("j").Workers(1).BuildWithDefaults(),
      {.operator_namespace = "lockstep-system", .scraper_namespace = "monitoring"});
  EXPECT_EQ(policy["spec"]["ingress"].size(), 2U);
  EXPECT_EQ(policy.dump().find("lockstep-system"), std::string::npos);
}

TEST(BuildNetworkPolicyTest, AnEmptyNamespaceIsNobody) {
  const Json policy = BuildNetworkPolicy(Trains(), {});
  EXPECT_EQ(policy["spec"]["ingress"].size(), 1U) << "an empty `from` would be everybody";
}

TEST(BuildNetworkPolicyTest, TheOperatorAsksTheLeadingReplicasPort) {
  Json chief = testing::Template();
  chief["spec"]["containers"][0]["ports"] = {{{"name", "cluster"}, {"containerPort", 7000}}};
  const auto job =
      Job("j").Workers(1).Chief().PodTemplate(Role::kChief, chief).Training().BuildWithDefaults();
  const Json policy = BuildNetworkPolicy(job, {.operator_namespace = "o"});
  EXPECT_EQ(policy["spec"]["ingress"][1]["ports"][0]["port"], 7000);
}

TEST(BuildNetworkPolicyTest, AnEvaluatorsOwnPortIsOpenToTheOperatorToo) {
  Json evaluator = testing::Template();
  evaluator["spec"]["containers"][0]["ports"] = {{{"name", "cluster"}, {"containerPort", 7000}}};
  const auto ports = [](const testing::JobBuilder& job) {
    auto trains = job;
    const Json policy = BuildNetworkPolicy(
        trains.Workers(1).Evaluator().Training().BuildWithDefaults(), {.operator_namespace = "o"});
    std::vector<int> found;
    for (const Json& rule : policy["spec"]["ingress"]) {
      if (rule.contains("ports")) found.push_back(rule["ports"][0]["port"]);
    }
    return found;
  };
  EXPECT_EQ(ports(Job("j")), std::vector<int>{2222});
  EXPECT_EQ(ports(Job("j").PodTemplate(Role::kEvaluator, evaluator)),
            (std::vector<int>{2222, 7000}));
}

}  // namespace
}  // namespace lockstep::controller
