#include "operator/controller/children/build_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "api/v1/names.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/children/render.h"
#include "operator/controller/state/observed.h"
#include "tests/support/builders.h"
#include "tests/support/controller_uid.h"

namespace lockstep::controller {
namespace {

using api::Role;
using kube::Object;
using testing::Job;

Object Pod(const testing::JobBuilder& job, Role role = Role::kWorker, int index = 0) {
  return BuildPod(ClusterSpec(job.BuildWithDefaults(), DnsAddresses()), {}, {role, index},
                  /*attempt=*/2);
}

const Object* EnvEntry(const Object& container, const std::string& name) {
  for (const Object& entry : container.at("env")) {
    if (entry.at("name") == name) return &entry;
  }
  return nullptr;
}

TEST(BuildPodTest, HasNameLabelsOwnerAndDnsName) {
  const Object pod = Pod(Job("mnist").Namespace("ml").Uid("u").Workers(2), Role::kWorker, 1);
  EXPECT_EQ(kube::KeyOf(pod), (kube::Key{"ml", "mnist-worker-1"}));
  EXPECT_EQ(pod["metadata"]["labels"].dump(),
            R"({"training.lockstep.dev/attempt":"2","training.lockstep.dev/job-name":"mnist",)"
            R"("training.lockstep.dev/job-uid":"u","training.lockstep.dev/replica-index":"1",)"
            R"("training.lockstep.dev/role":"worker"})");
  EXPECT_EQ(kube::ControllerUid(pod), "u");
  EXPECT_EQ(pod["spec"]["hostname"], "mnist-worker-1");
  EXPECT_EQ(pod["spec"]["subdomain"], "mnist");
}

TEST(BuildPodTest, PythonOfAnOwnImageIsUnbufferedUnlessTheTemplateSaysOtherwise) {
  Object two = testing::Template("pytorch");
  two["spec"]["containers"].push_back({{"name", "logs"}, {"image", "x"}});
  const Object pod = Pod(Job("j").Workers(1).PodTemplate(Role::kWorker, two));
  for (const Object& container : pod["spec"]["containers"]) {
    const Object* entry = EnvEntry(container, "PYTHONUNBUFFERED");
    ASSERT_NE(entry, nullptr) << container;
    EXPECT_EQ(entry->at("value"), "1");
  }
  Object own = testing::Template("pytorch");
  own["spec"]["containers"][0]["env"] = {{{"name", "PYTHONUNBUFFERED"}, {"value", ""}}};
  const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, own);
  EXPECT_EQ(EnvEntry(Pod(job)["spec"]["containers"][0], "PYTHONUNBUFFERED")->at("value"), "");
  EXPECT_TRUE(OverriddenEnv(job.BuildWithDefaults()).empty()) << "it is no identity that is lost";
  const Object trainer = Pod(Job("j").Workers(1).Training());
  EXPECT_EQ(EnvEntry(trainer["spec"]["containers"][0], "PYTHONUNBUFFERED"), nullptr);
}

TEST(BuildPodTest, PodsOfAnOwnImageFindEachOtherByTheirBareNames) {
  const Settings known{.cluster_domain = "cluster.local"};
  const auto dns = [](const testing::JobBuilder& job, const Settings& settings) {
    const Object pod = BuildPod(ClusterSpec(job.BuildWithDefaults(), DnsAddresses()), settings,
                                {Role::kWorker, 0}, 0);
    return pod["spec"].value("dnsConfig", Object());
  };
  const auto own = Job("mnist").Namespace("ml").Workers(2);
  EXPECT_EQ(dns(own, known).dump(), R"({"searches":["mnist.ml.svc.cluster.local"]})");
  EXPECT_EQ(dns(own, {}), nullptr) << "the domain is not known";
  EXPECT_EQ(dns(Job("mnist").Workers(2).Training(), known), nullptr);
  Object tmpl = testing::Template();
  tmpl["spec"]["dnsConfig"] = {{"options", {{{"name", "ndots"}, {"value", "2"}}}},
                               {"searches", {"example.com"}}};
  EXPECT_EQ(
      dns(Job("mnist").Namespace("ml").Workers(1).PodTemplate(Role::kWorker, tmpl), known).dump(),
      R"({"options":[{"name":"ndots","value":"2"}],)"
      R"("searches":["example.com","mnist.ml.svc.cluster.local"]})");
  tmpl["spec"]["dnsConfig"]["searches"] = {"mnist.ml.svc.cluster.local"};
  EXPECT_EQ(dns(Job("mnist").Namespace("ml").Workers(1).PodTemplate(Role::kWorker, tmpl), known)
                .at("searches")
                .size(),
            1U);
}

TEST(BuildPodTest, ASearchListThatIsFullIsLeftAsItIs) {
  const auto searches = [](const Object& given) {
    Object tmpl = testing::Template();
    tmpl["spec"]["dnsConfig"]["searches"] = given;
    const auto job = Job("mnist").Namespace("ml").Workers(1).PodTemplate(Role::kWorker, tmpl);
    const Object pod = BuildPod(ClusterSpec(job.BuildWithDefaults(), DnsAddresses()),
                                {.cluster_domain = "cluster.local"}, {Role::kWorker, 0}, 0);
    return pod["spec"]["dnsConfig"]["searches"].size();
  };
  EXPECT_EQ(searches(Object(31, "example.com")), 32U);
  EXPECT_EQ(searches(Object(32, "example.com")), 32U);
  const std::size_t room = 2048 - 1 - std::string("mnist.ml.svc.cluster.local").size();
  EXPECT_EQ(searches({std::string(room, 'a')}), 2U);
  EXPECT_EQ(searches({std::string(room + 1, 'a')}), 1U);
}

TEST(BuildPodTest, KubeflowsLabelsAreSetIfTheOperatorIsToldTo) {
  const auto labels = [](const testing::JobBuilder& job, Role role, bool wanted) {
    const Object pod = BuildPod(ClusterSpec(job.BuildWithDefaults(), DnsAddresses()),
                                {.kubeflow_labels = wanted}, {role, 0}, 0);
    Object found = Object::object();
    for (const auto& [name, value] : pod["metadata"]["labels"].items()) {
      if (name.starts_with("training.kubeflow.org/")) found[name.substr(22)] = value;
    }
    return found.dump();
  };
  const auto torch =
      Job("mnist").Chief().Workers(1).PodTemplate(Role::kChief, testing::Template("pytorch"));
  EXPECT_EQ(labels(torch, Role::kWorker, true),
            R"({"job-name":"mnist","replica-index":"0","replica-type":"worker"})");
  EXPECT_EQ(labels(torch, Role::kChief, true),
            R"({"job-name":"mnist","replica-index":"0","replica-type":"master"})");
  EXPECT_EQ(labels(Job("mnist").Chief().Workers(1), Role::kChief, true),
            R"({"job-name":"mnist","replica-index":"0","replica-type":"chief"})");
  EXPECT_EQ(labels(torch, Role::kWorker, false), "{}");
}

TEST(BuildPodTest, RestartPolicyFollowsTheScope) {
  struct Case {
    api::RestartScope scope;
    api::RestartPolicy policy;
    const char* expected;
  };
  const Case cases[] = {
      {api::RestartScope::kGang, api::RestartPolicy::kAlways, "Never"},
      {api::RestartScope::kInPlace, api::RestartPolicy::kOnFailure, "Never"},
      {api::RestartScope::kPod, api::RestartPolicy::kAlways, "Always"},
      {api::RestartScope::kPod, api::RestartPolicy::kOnFailure, "OnFailure"},
      {api::RestartScope::kPod, api::RestartPolicy::kNever, "Never"},
      {api::RestartScope::kPod, api::RestartPolicy::kExitCode, "Never"},
  };
  for (const Case& c : cases) {
    const auto job =
        Job("j").Workers(1).RestartScope(c.scope).RestartPolicy(Role::kWorker, c.policy);
    EXPECT_EQ(Pod(job)["spec"]["restartPolicy"], c.expected);
  }
}

TEST(BuildPodTest, TheKubeletRestartsNothingThatRulesMayBeAbout) {
  auto job = Job("j").Workers(1).Evaluator().RestartScope(api::RestartScope::kPod);
  job.With([](api::TrainingJob& built) {
    built.spec.run_policy.pod_failure_policy.emplace();
    for (auto& [role, replicas] : built.spec.replica_specs) {
      replicas.restart_policy = api::RestartPolicy::kOnFailure;
    }
  });
  EXPECT_EQ(Pod(job)["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(Pod(job, Role::kEvaluator)["spec"]["restartPolicy"], "OnFailure");
}

TEST(BuildPodTest, ItsMainContainerHasNoRestartPolicyOfItsOwn) {
  api::Json pod_template = testing::Template("mine");
  api::Json& containers = pod_template["spec"]["containers"];
  containers[0]["restartPolicy"] = "Never";
  containers[0]["restartPolicyRules"] = {
      {{"action", "Restart"}, {"exitCodes", {{"operator", "In"}, {"values", {42}}}}}};
  containers.push_back({{"name", "logs"}, {"image", "i"}, {"restartPolicy", "Always"}});
  const Object pod = Pod(Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template));
  EXPECT_FALSE(pod["spec"]["containers"][0].contains("restartPolicy"));
  EXPECT_FALSE(pod["spec"]["containers"][0].contains("restartPolicyRules"));
  EXPECT_EQ(pod["spec"]["containers"][1]["restartPolicy"], "Always");
}

TEST(BuildPodTest, SidecarsGetTheVariablesThatDoNotGrowWithTheJob) {
  api::Json pod_template = testing::Template("mine");
  pod_template["spec"]["containers"].push_back({{"name", "sidecar"}, {"image", "s"}});
  pod_template["spec"]["initContainers"] = {{{"name", "init"}, {"image", "i"}}};
  const Object pod = Pod(Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template));
  const Object& containers = pod["spec"]["containers"];
  for (const Object& container : containers) {
    for (const char* name : {"LOCKSTEP_INDEX", "RANK", "JAX_PROCESS_ID"}) {
      EXPECT_NE(EnvEntry(container, name), nullptr) << name;
    }
  }
  EXPECT_NE(EnvEntry(containers[0], "TF_CONFIG"), nullptr);
  EXPECT_EQ(EnvEntry(containers[1], "TF_CONFIG"), nullptr);
  EXPECT_FALSE(pod["spec"]["initContainers"][0].contains("env"));
}

// 1,024 layers with long names beside 255 containers once made a pod of 75 MB.
TEST(BuildPodTest, OnlyTheMainContainerGetsTheBundledTrainersConfiguration) {
  api::Json pod_template = {{"spec", {{"containers", api::Json::array()}}}};
  for (int i = 0; i < 255; ++i) {
    const std::string name = "c" + std::to_string(i);
    pod_template["spec"]["containers"].push_back({{"name", name}, {"image", "x"}});
  }
  pod_template["spec"]["containers"].push_back({{"name", "trainer"}});
  const std::string name(80, 'x');
  const auto job = Job("j").Workers(1).Training().With([&](api::TrainingJob& made) {
    made.spec.training->model = {
        .name = "",
        .layers = api::Json(std::vector(1024, api::Json{{"type", "ReLU"}, {"name", name}}))};
    made.spec.replica_specs.at(Role::kWorker).tmpl = pod_template;
  });
  const Object pod = Pod(job);
  const Object& containers = pod["spec"]["containers"];
  for (const char* variable : {"LOCKSTEP_CONFIG", "LOCKSTEP_STRATEGY", "TF_CONFIG"}) {
    EXPECT_NE(EnvEntry(containers[255], variable), nullptr) << variable;
    EXPECT_EQ(EnvEntry(containers[0], variable), nullptr) << variable;
  }
  EXPECT_NE(EnvEntry(containers[0], "LOCKSTEP_INDEX"), nullptr);
  EXPECT_LT(pod.dump().size(), 300'000U);
}

TEST(BuildPodTest, AMainContainerIsAnnotatedUnlessItsNameShowsIt) {
  const auto noted = [](const char* container) {
    const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, testing::Template(container));
    const Object annotations = Pod(job)["metadata"]["annotations"];
    return kube::TextMember(annotations, api::kAnnotationMainContainer);
  };
  EXPECT_EQ(noted("mine"), "mine");
  for (const char* container : {"tensorflow", "pytorch", "jax", "trainer"}) {
    EXPECT_EQ(noted(container), "") << container;
  }
}

// Not of a role that starts again anyway, and of none where success ends the replica.
TEST(BuildPodTest, TheOperatorRestartsWhatTheKubeletWouldAlwaysRestart) {
  struct Case {
    api::RestartScope scope;
    api::RestartPolicy policy;
    bool has_rules, starts_again;
  };
  for (const Case& c : {Case{api::RestartScope::kPod, api::RestartPolicy::kAlways, true, true},
                        Case{api::RestartScope::kPod, api::RestartPolicy::kAlways, false, false},
                        Case{api::RestartScope::kPod, api::RestartPolicy::kOnFailure, true, false},
                        Case{api::RestartScope::kGang, api::RestartPolicy::kAlways, true, false}}) {
    auto job = Job("j").Workers(1).Evaluator().RestartScope(c.scope);
    job.RestartPolicy(Role::kWorker, c.policy).RestartPolicy(Role::kEvaluator, c.policy);
    if (c.has_rules) {
      job.With([](api::TrainingJob& made) { made.spec.run_policy.pod_failure_policy.emplace(); });
    }
    EXPECT_EQ(ObservePod(Pod(job))->starts_again, c.starts_again);
    EXPECT_FALSE(ObservePod(Pod(job, Role::kEvaluator))->starts_again) << "the kubelet does it";
  }
}

// It may be a copy of an earlier job's pod.
TEST(BuildPodTest, ATemplateCannotSetTheOperatorsAnnotations) {
  api::Json pod_template = testing::Template("pytorch");
  api::Json& annotations = pod_template["metadata"]["annotations"];
  annotations["mine"] = "kept";
  for (const char* note :
       {api::kAnnotationClusterShape, api::kAnnotationElasticBounds, api::kAnnotationElasticPeers,
        api::kAnnotationMainContainer, api::kAnnotationNetworkPolicy, api::kAnnotationRestartPolicy,
        api::kAnnotationReportChannel, api::kAnnotationTokenSecret, api::kAnnotationTrainerImage,
        api::kAnnotationTrainerGpuImage}) {
    annotations[note] = "forged";
  }
  annotations[api::kAnnotationSpecHash] = "forged";
  const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template);
  const Object made = Pod(job)["metadata"]["annotations"];
  EXPECT_EQ(made["mine"], "kept");
  EXPECT_THAT(made.dump(), ::testing::Not(::testing::HasSubstr("forged")));
  const auto observed = ObservePod(Pod(job));
  EXPECT_FALSE(observed->has_token || observed->has_network_policy || observed->starts_again);
}

TEST(BuildPodTest, WhatAnElasticJobsPodsAreToldIsNotedWhereTheirProgramReadsIt) {
  struct Case {
    const char* container;
    bool servers;
    const char *peers, *bounds;
  };
  for (const Case& c :
       {Case{"pytorch", false, "chief=1,ps=0", "1:4"}, Case{"mine", false, "chief=1,ps=0", "1:4"},
        Case{"jax", false, "chief=1,ps=0", ""}, Case{"mine", true, "chief=1,ps=2", ""}}) {
    auto job = Job("j").Chief().Workers(2).RestartScope(api::RestartScope::kPod);
    if (c.servers) {
      job.ParameterServers(2).Strategy(api::StrategyType::kParameterServer);
    }
    job.PodTemplate(Role::kWorker, testing::Template(c.container));
    job.With([](api::TrainingJob& made) { made.spec.elastic = api::ElasticSpec{1, 4}; });
    const auto pod = ObservePod(Pod(job));
    EXPECT_EQ(pod->cluster_shape, "elastic") << "as older operators write it, which compare it";
    EXPECT_EQ(pod->elastic_peers, c.peers) << c.container;
    EXPECT_EQ(pod->elastic_bounds, c.bounds) << c.container;
  }
  EXPECT_EQ(ObservePod(Pod(Job("j").Workers(2)))->elastic_peers, "") << "its shape has them";
  EXPECT_EQ(ObservePod(Pod(Job("j").Workers(2)))->elastic_bounds, "");
}

// Else every pod would be a client of a store that nobody hosts.
TEST(BuildPodTest, SettingsOfTheRendezvousLeaveTheLeaderTheHost) {
  const auto settings = [](const std::string& own, int index) {
    api::Json pod_template = testing::Template("pytorch");
    pod_template["spec"]["containers"][0]["env"] = {{{"name", "PET_RDZV_CONF"}, {"value", own}}};
    auto job = Job("j").Workers(2).PodTemplate(Role::kWorker, pod_template);
    job.With([](api::TrainingJob& made) { made.spec.elastic = api::ElasticSpec{1, 4}; });
    const DnsAddresses addresses;
    const api::TrainingJob made = job.BuildWithDefaults();
    const Object pod = BuildPod({made, addresses}, {}, {Role::kWorker, index}, 0);
    for (const Object& variable : pod["spec"]["containers"][0]["env"]) {
      if (variable["name"] == "PET_RDZV_CONF") return variable["value"].get<std::string>();
    }
    return std::string("none");
  };
  EXPECT_EQ(settings("timeout=900", 0), "is_host=true,timeout=900");
  EXPECT_EQ(settings("timeout=900", 1), "is_host=false,timeout=900");
  EXPECT_EQ(settings("", 1), "is_host=false");
  EXPECT_EQ(settings("is_host=0", 0), "is_host=0") << "the template's own wins, as elsewhere";
}

TEST(BuildPodTest, BoundsThatTheTemplateSetsItselfAreNotNoted) {
  api::Json pod_template = testing::Template("pytorch");
  pod_template["spec"]["containers"][0]["env"] = {{{"name", "PET_NNODES"}, {"value", "1:99"}}};
  auto job = Job("j").Workers(2).PodTemplate(Role::kWorker, pod_template);
  job.With([](api::TrainingJob& made) { made.spec.elastic = api::ElasticSpec{1, 4}; });
  EXPECT_EQ(ObservePod(Pod(job))->elastic_bounds, "");
}

TEST(BuildPodTest, TheUsersVariableWinsAndIsNamed) {
  api::Json pod_template = testing::Template();
  pod_template["spec"]["containers"][0]["env"] = {{{"name", "TF_CONFIG"}, {"value", "mine"}},
                                                  {{"name", "OTHER"}, {"value", "$(RANK)"}}};
  const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template);
  const Object container = Pod(job)["spec"]["containers"][0];
  EXPECT_EQ(EnvEntry(container, "TF_CONFIG")->at("value"), "mine");
  EXPECT_EQ(container["env"].back()["name"], "OTHER");  // after ours, which it refers to
  EXPECT_THAT(OverriddenEnv(job.BuildWithDefaults()), ::testing::ElementsAre("TF_CONFIG"));
}

TEST(BuildPodTest, AVariableThatASidecarWouldNotGetIsNotOverridden) {
  api::Json pod_template = testing::Template("mine");
  pod_template["spec"]["containers"].push_back(
      {{"name", "sidecar"},
       {"env", {{{"name", "TF_CONFIG"}, {"value", "x"}}, {{"name", "RANK"}, {"value", "x"}}}}});
  const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template);
  EXPECT_THAT(OverriddenEnv(job.BuildWithDefaults()), ::testing::ElementsAre("RANK"));
}

TEST(BuildPodTest, OwnImagesGetNoTrainerDefaults) {
  const Object spec = Pod(Job("j").Workers(1))["spec"];
  EXPECT_FALSE(spec.contains("volumes"));
  EXPECT_FALSE(spec.contains("securityContext"));
  EXPECT_FALSE(spec["containers"][0].contains("command"));
}

// status.failure has no other source of a program's last words.
TEST(BuildPodTest, TheLastLinesOfAMainContainerAreItsMessageUnlessTheTemplateSaysOtherwise) {
  Object pod_template = testing::Template("mine");
  pod_template["spec"]["containers"].push_back({{"name", "sidecar"}});
  const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template);
  const Object containers = Pod(job)["spec"]["containers"];
  EXPECT_EQ(containers[0]["terminationMessagePolicy"], "FallbackToLogsOnError");
  EXPECT_FALSE(containers[1].contains("terminationMessagePolicy"));
  pod_template["spec"]["containers"][0]["terminationMessagePolicy"] = "File";
  const auto own = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template);
  EXPECT_EQ(Pod(own)["spec"]["containers"][0]["terminationMessagePolicy"], "File");
}

TEST(BuildPodTest, TheLastLinesOfAnInitContainerAreItsMessageUnlessTheTemplateSaysOtherwise) {
  Object pod_template = testing::Template("mine");
  pod_template["spec"]["initContainers"] = {
      {{"name", "fetch"}}, {{"name", "secret"}, {"terminationMessagePolicy", "File"}}};
  const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template);
  const Object init = Pod(job)["spec"]["initContainers"];
  EXPECT_EQ(init[0]["terminationMessagePolicy"], "FallbackToLogsOnError");
  EXPECT_EQ(init[1]["terminationMessagePolicy"], "File");
}

// It would wait for the others, who are lost and replaced one by one, and need not exist.
TEST(BuildPodTest, TorchrunOfAPodThatTrainsAloneFormsAGroupOfOne) {
  for (const char* container : {"pytorch", "mine"}) {
    const Object pod = Pod(Job("j")
                               .Workers(3)
                               .Strategy(api::StrategyType::kIndependent)
                               .PodTemplate(Role::kWorker, testing::Template(container)),
                           Role::kWorker, 2);
    std::map<std::string, std::string> env;
    for (const Object& variable : pod.at("spec").at("containers").at(0).at("env")) {
      if (variable.contains("value")) env[variable.at("name")] = variable.at("value");
    }
    EXPECT_EQ(env["PET_NNODES"], "1") << container;
    EXPECT_EQ(env["PET_NODE_RANK"], "0") << container;
    EXPECT_THAT(env["PET_MASTER_ADDR"], ::testing::HasSubstr("j-worker-2")) << container;
    EXPECT_EQ(env[api::kEnvIndex], "2") << container;
    EXPECT_EQ(env["RANK"], "2") << "as a script without torchrun tells its variant";
  }
}

// Some scripts join a group if WORLD_SIZE is above 1 and they are told where to meet, and then runs
// with different settings would average their gradients.
TEST(BuildPodTest, NothingTellsAPodThatTrainsAloneWhereToMeetTheOthers) {
  for (const char* container : {"pytorch", "jax", "mine"}) {
    const auto container_of = [container](api::StrategyType strategy) {
      const auto job = Job("j").Workers(3).Strategy(strategy).PodTemplate(
          Role::kWorker, testing::Template(container));
      return Pod(job, Role::kWorker, 2)["spec"]["containers"][0];
    };
    const Object alone = container_of(api::StrategyType::kIndependent);
    const Object group = container_of(api::StrategyType::kMultiWorkerMirrored);
    const std::string name = container;
    std::vector<const char*> meeting, which;
    if (name != "jax") {
      meeting.insert(meeting.end(), {"MASTER_ADDR", "MASTER_PORT"});
      which.insert(which.end(), {"RANK", "WORLD_SIZE"});
    }
    if (name != "pytorch") {
      meeting.insert(meeting.end(),
                     {"JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS", "COORDINATOR_PORT"});
      which.insert(which.end(), {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "PROCESS_ID"});
    }
    for (const char* variable : meeting) {
      EXPECT_EQ(EnvEntry(alone, variable), nullptr) << variable;
      EXPECT_NE(EnvEntry(group, variable), nullptr) << variable;
    }
    for (const char* variable : which) EXPECT_NE(EnvEntry(alone, variable), nullptr) << variable;
  }
}

Object HostTemplate(const char* container) {
  Object pod_template = testing::Template(container);
  pod_template["spec"]["hostNetwork"] = true;
  return pod_template;
}

// The cluster ports that the pod's containers declare.
std::vector<int> ClusterPorts(const Object& pod) {
  std::vector<int> ports;
  for (const Object& container : pod["spec"]["containers"]) {
    for (const Object& port : kube::ListMember(container, "ports")) {
      if (kube::TextMember(port, "name") != "metrics") ports.push_back(port["containerPort"]);
    }
  }
  return ports;
}

// A node's DNS knows no Service, and so no replica.
TEST(BuildPodTest, APodOfTheHostsNetworkAsksTheClustersDns) {
  for (const bool bundled : {true, false}) {
    auto job = Job("j").Workers(2).PodTemplate(Role::kWorker, HostTemplate("trainer"));
    if (bundled) job.Training();
    EXPECT_EQ(Pod(job)["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
    Object own = HostTemplate("trainer");
    own["spec"]["dnsPolicy"] = "None";
    EXPECT_EQ(Pod(job.PodTemplate(Role::kWorker, own))["spec"]["dnsPolicy"], "None");
    own["spec"]["hostNetwork"] = false;
    own["spec"].erase("dnsPolicy");
    EXPECT_FALSE(Pod(job.PodTemplate(Role::kWorker, own))["spec"].contains("dnsPolicy"));
  }
}

// Else the scheduler puts two that listen at it on one node.
TEST(BuildPodTest, APodOfTheHostsNetworkDeclaresTheClusterPortOnce) {
  const auto ports = [](const Object& pod_template, bool bundled) {
    auto job = Job("j").Workers(2).PodTemplate(Role::kWorker, pod_template);
    if (bundled) job.Training();
    return ClusterPorts(Pod(job));
  };
  EXPECT_THAT(ports(HostTemplate("pytorch"), false), ::testing::ElementsAre(2222));
  EXPECT_THAT(ports(HostTemplate("trainer"), true), ::testing::ElementsAre(2222));
  Object own = HostTemplate("pytorch");
  Object& containers = own["spec"]["containers"];
  containers[0]["ports"] = {{{"name", "cluster"}, {"containerPort", 3333}}};
  EXPECT_THAT(ports(own, false), ::testing::ElementsAre(3333));
  containers[0]["ports"][0] = {{"name", "own"}, {"containerPort", 2222}};
  EXPECT_THAT(ports(own, false), ::testing::ElementsAre(2222)) << "as a port of another name";
  containers[0]["ports"][0]["protocol"] = "UDP";
  EXPECT_THAT(ports(own, false), ::testing::ElementsAre(2222, 2222)) << "that is another port";
  containers[0].erase("ports");
  containers.push_back({{"name", "proxy"}, {"ports", {{{"name", "p"}, {"containerPort", 2222}}}}});
  EXPECT_THAT(ports(own, false), ::testing::ElementsAre(2222)) << "twice would be refused";
  EXPECT_THAT(ports(testing::Template("pytorch"), false), ::testing::IsEmpty());
}

// Several that do not listen may share a node.
TEST(BuildPodTest, OnTheHostsNetworkOnlyWhoListensDeclaresTheClusterPort) {
  struct Case {
    const char* container;
    api::StrategyType strategy;
    bool follower_listens;
  };
  for (const Case& c : {Case{"pytorch", api::StrategyType::kMultiWorkerMirrored, false},
                        Case{"jax", api::StrategyType::kMultiWorkerMirrored, false},
                        Case{"mine", api::StrategyType::kMultiWorkerMirrored, false},
                        Case{"tensorflow", api::StrategyType::kMultiWorkerMirrored, true},
                        Case{"mine", api::StrategyType::kParameterServer, true},
                        Case{"pytorch", api::StrategyType::kIndependent, true}}) {
    auto job = Job("j").Workers(2).Evaluator().Strategy(c.strategy);
    if (c.strategy == api::StrategyType::kParameterServer) job.ParameterServers(1);
    for (const Role role : {Role::kWorker, Role::kParameterServer, Role::kEvaluator}) {
      const bool has =
          role != Role::kParameterServer || c.strategy == api::StrategyType::kParameterServer;
      if (has) job.PodTemplate(role, HostTemplate(c.container));
    }
    EXPECT_THAT(ClusterPorts(Pod(job, Role::kWorker, 0)), ::testing::ElementsAre(2222));
    EXPECT_EQ(ClusterPorts(Pod(job, Role::kWorker, 1)).size(), c.follower_listens ? 1U : 0U)
        << c.container;
    if (c.strategy == api::StrategyType::kIndependent) continue;  // it has no other role
    EXPECT_THAT(ClusterPorts(Pod(job, Role::kEvaluator)), ::testing::IsEmpty()) << c.container;
  }
}

TEST(BuildPodTest, TheTrainersPodIsFilledIn) {
  const Object spec = Pod(Job("j").Workers(1).Training())["spec"];
  const Object& container = spec["containers"][0];
  EXPECT_EQ(container["name"], "trainer");
  EXPECT_EQ(container["image"], DefaultTrainerImages().cpu);
  EXPECT_EQ(container["command"], Object::array({"lockstep-trainer"}));
  EXPECT_EQ(container["terminationMessagePolicy"], "FallbackToLogsOnError");
  EXPECT_EQ(container["volumeMounts"][0]["mountPath"], "/dev/shm");
  EXPECT_EQ(spec["volumes"][0]["emptyDir"]["medium"], "Memory");
  EXPECT_EQ(spec["volumes"][0]["name"], container["volumeMounts"][0]["name"]);
  EXPECT_EQ(spec["automountServiceAccountToken"], false);
  EXPECT_EQ(spec["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(spec["securityContext"]["fsGroup"], 65532);
  EXPECT_EQ(spec["securityContext"]["fsGroupChangePolicy"], "OnRootMismatch");
  EXPECT_EQ(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  EXPECT_EQ(container["securityContext"]["allowPrivilegeEscalation"], false);
  EXPECT_EQ(container["securityContext"]["capabilities"].dump(), R"({"drop":["ALL"]})");
  EXPECT_EQ(container["securityContext"]["readOnlyRootFilesystem"], true);
}

// Without it, a kubelet changes each file of a volume at each start of a pod. What a template says
// of its own group is its author's.
TEST(BuildPodTest, OnlyTheOperatorsOwnGroupOfVolumesComesWithAPolicy) {
  const auto context_with = [](const Object& security) {
    const Object pod_template = {{"spec", {{"securityContext", security}}}};
    const auto job = Job("j").Workers(1).Training().PodTemplate(Role::kWorker, pod_template);
    return Pod(job)["spec"]["securityContext"];
  };
  const Object alone = context_with({{"runAsUser", 7}});
  EXPECT_EQ(alone["fsGroup"], 65532);
  EXPECT_EQ(alone["fsGroupChangePolicy"], "OnRootMismatch");
  EXPECT_FALSE(context_with({{"fsGroup", 7}}).contains("fsGroupChangePolicy"));
  EXPECT_EQ(context_with({{"fsGroupChangePolicy", "Always"}})["fsGroupChangePolicy"], "Always");
}

const Object kRestricted = {{"allowPrivilegeEscalation", false},
                            {"capabilities", {{"drop", {"ALL"}}}}};

TEST(BuildPodTest, AllContainersOfATrainersPodAreRestrictedUnlessTheTemplateSaysOtherwise) {
  const api::Json pod_template = {
      {"spec",
       {{"initContainers",
         {{{"name", "fetch"}, {"image", "i"}},
          {{"name", "proxy"}, {"image", "i"}, {"restartPolicy", "Always"}},
          {{"name", "chown"}, {"image", "i"}, {"securityContext", {{"runAsUser", 0}}}},
          {{"name", "probe"}, {"image", "i"}, {"securityContext", {{"privileged", true}}}},
          {{"name", "bind"},
           {"image", "i"},
           {"securityContext", {{"capabilities", {{"add", {"NET_BIND_SERVICE"}}}}}}}}},
        {"containers",
         {{{"name", "trainer"}},
          {{"name", "sidecar"}, {"image", "s"}},
          {{"name", "monitor"}, {"image", "m"}, {"securityContext", {{"privileged", true}}}}}}}}};
  const Object pod = Pod(Job("j").Workers(1).Training().PodTemplate(Role::kWorker, pod_template));
  const auto context_of = [&pod](const char* list, int i) {
    return pod["spec"][list][static_cast<std::size_t>(i)]["securityContext"];
  };
  EXPECT_EQ(context_of("initContainers", 0), kRestricted);
  EXPECT_EQ(context_of("initContainers", 1), kRestricted);
  EXPECT_EQ(context_of("initContainers", 2), (Object{{"runAsUser", 0}}));
  EXPECT_EQ(context_of("initContainers", 3), (Object{{"privileged", true}}));
  EXPECT_EQ(context_of("initContainers", 4)["capabilities"],
            (Object{{"add", {"NET_BIND_SERVICE"}}}));
  EXPECT_EQ(context_of("initContainers", 4)["allowPrivilegeEscalation"], false);
  EXPECT_EQ(context_of("containers", 0)["capabilities"], kRestricted["capabilities"]);
  EXPECT_EQ(context_of("containers", 1), kRestricted) << "it may write where it likes";
  EXPECT_EQ(context_of("containers", 2), (Object{{"privileged", true}}));
}

TEST(BuildPodTest, TheTrainersRootIsReadOnlyIfAllItWritesIsOnVolumes) {
  struct Case {
    const char* name;
    api::Json container;  // its members besides the name
    const char* checkpoints;
    const char* summaries;
    bool is_read_only;
    const char* export_to = "";
  };
  const auto mounted = [](const char* path) {
    return api::Json{{"volumeMounts", {{{"name", "v"}, {"mountPath", path}}}}};
  };
  const Case cases[] = {
      {"writes nothing", api::Json::object(), "", "", true},
      {"checkpoints on a volume", mounted("/checkpoints"), "/checkpoints", "", true},
      {"below a volume", mounted("/data/"), "/data/a/checkpoints", "/data/logs", true},
      {"checkpoints beside the volume", mounted("/check"), "/checkpoints", "", false},
      {"checkpoints that outlive no container", api::Json::object(), "/tmp/checkpoints", "", false},
      {"summaries on no volume", mounted("/checkpoints"), "/checkpoints", "/logs", false},
      {"an export on a volume", mounted("/out"), "", "", true, "/out/model.onnx"},
      {"an export on no volume", mounted("/out"), "/out", "/out", false, "/model.onnx"},
      {"an image of its own", {{"image", "own:1"}}, "", "", false},
      {"a command of its own", {{"command", {"sh"}}}, "", "", false},
      {"the template says otherwise",
       {{"securityContext", {{"readOnlyRootFilesystem", false}}}},
       "",
       "",
       false},
      {"privileged", {{"securityContext", {{"privileged", true}}}}, "", "", false},
  };
  for (const Case& c : cases) {
    api::Json main = c.container;
    main["name"] = "trainer";
    const auto job = Job("j").Workers(1).Training().With([&](api::TrainingJob& made) {
      made.spec.replica_specs.at(Role::kWorker).tmpl =
          api::Json{{"spec", {{"containers", api::Json::array({main})}}}};
      made.spec.training->checkpoint.directory = c.checkpoints;
      made.spec.training->summaries.directory = c.summaries;
      made.spec.training->checkpoint.export_to = c.export_to;
    });
    const Object made = Pod(job)["spec"]["containers"][0]["securityContext"];
    EXPECT_EQ(made.value("readOnlyRootFilesystem", false), c.is_read_only) << c.name;
  }
}

TEST(BuildPodTest, WhoDoesNotLeadWritesNoCheckpoints) {
  const auto job = Job("j").Chief().Workers(1).Training().With(
      [](api::TrainingJob& made) { made.spec.training->checkpoint.directory = "/checkpoints"; });
  const auto context_of = [&job](Role role) {
    return Pod(job, role)["spec"]["containers"][0]["securityContext"];
  };
  EXPECT_EQ(context_of(Role::kWorker)["readOnlyRootFilesystem"], true);
  EXPECT_FALSE(context_of(Role::kChief).contains("readOnlyRootFilesystem"));
}

TEST(BuildPodTest, WhoeverReadsDataWritesDecodedSamples) {
  const auto job = Job("j").Chief().Workers(1).Training().With(
      [](api::TrainingJob& made) { made.spec.training->dataset.cache_directory = "/cache"; });
  for (const Role role : {Role::kWorker, Role::kChief}) {
    const Object made = Pod(job, role)["spec"]["containers"][0]["securityContext"];
    EXPECT_FALSE(made.contains("readOnlyRootFilesystem"));
  }
}

TEST(BuildPodTest, WhatATrainersTemplateSetsStays) {
  const api::Json pod_template = {
      {"metadata", {{"labels", {{"team", "a"}}}, {"annotations", {{"note", "b"}}}}},
      {"spec",
       {{"automountServiceAccountToken", true},
        {"securityContext", {{"fsGroup", 7}}},
        {"containers",
         {{{"name", "mine"},
           {"image", "own:1"},
           {"command", {"run"}},
           {"volumeMounts", {{{"name", "big"}, {"mountPath", "/dev/shm"}}}}}}}}}};
  const Object pod = Pod(Job("j").Workers(1).Training().PodTemplate(Role::kWorker, pod_template));
  EXPECT_EQ(pod["metadata"]["labels"]["team"], "a");
  EXPECT_EQ(pod["metadata"]["annotations"]["note"], "b");
  EXPECT_EQ(pod["spec"]["automountServiceAccountToken"], true);
  EXPECT_EQ(pod["spec"]["securityContext"]["fsGroup"], 7);
  EXPECT_EQ(pod["spec"]["containers"][0]["image"], "own:1");
  EXPECT_EQ(pod["spec"]["containers"][0]["command"], Object::array({"run"}));
  EXPECT_FALSE(pod["spec"].contains("volumes"));
}

TEST(BuildPodTest, ThePriorityClassOfTheJobIsThePods) {
  const auto job = Job("j").Workers(1).With([](api::TrainingJob& j) {
    j.spec.run_policy.scheduling_policy.emplace().priority_class = "high";
  });
  EXPECT_EQ(Pod(job)["spec"]["priorityClassName"], "high");
}

TEST(BuildServiceTest, IsHeadlessAndPublishesPodsThatAreNotReady) {
  const Object service = BuildService(Job("j").Uid("u").Workers(2).BuildWithDefaults());
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  EXPECT_EQ(service["spec"]["selector"].dump(), R"({"training.lockstep.dev/job-uid":"u"})");
  EXPECT_EQ(kube::ControllerUid(service), "u");
  EXPECT_EQ(kube::Name(service), "j");
}

TEST(RenderTest, ShowsTheServiceThenEveryPodChiefFirst) {
  const auto job = Job("j").Chief().Workers(2).Evaluator().BuildWithDefaults();
  std::vector<std::string> names;
  RenderObjects(job, DnsAddresses(), {}, [&names](const Object& object) {
    names.push_back(object.at("kind").get<std::string>() + "/" + kube::Name(object));
  });
  EXPECT_THAT(names, ::testing::ElementsAre("Service/j", "Pod/j-chief-0", "Pod/j-worker-0",
                                            "Pod/j-worker-1", "Pod/j-evaluator-0"));
}

// Counts who asks for an address.
class CountedAddresses final : public Addresses {
 public:
  Address Of(const api::TrainingJob& job, api::Role role, int index) const override {
    ++asked;
    return dns_.Of(job, role, index);
  }
  mutable int asked = 0;

 private:
  const DnsAddresses dns_;
};

TEST(RenderTest, APodIsBuiltOnlyOnceTheOneBeforeItIsTaken) {
  const auto job = Job("j").Workers(3).BuildWithDefaults();
  const CountedAddresses addresses;
  std::vector<int> asked;
  RenderObjects(job, addresses, {},
                [&](const Object& /*object*/) { asked.push_back(addresses.asked); });
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_EQ(asked[0], 0) << "the Service needs none";
  for (std::size_t i = 1; i < asked.size(); ++i) EXPECT_LT(asked[i - 1], asked[i]) << i;
}

TEST(RenderTest, OfEachRoleTheFirstPodIsKnownWithoutTheOthers) {
  const auto job = Job("j").Workers(10'000).ParameterServers(2).BuildWithDefaults();
  std::vector<std::string> names;
  for (const Object& pod : FirstPods(job, DnsAddresses())) names.push_back(kube::Name(pod));
  EXPECT_THAT(names, ::testing::ElementsAre("j-worker-0", "j-ps-0"));
}

TEST(RenderTest, TheChiefsPodLeadsElseTheFirstWorkers) {
  auto job = Job("j").Workers(2).ParameterServers(2);
  EXPECT_EQ(kube::Name(LeadingPod(FirstPods(job.BuildWithDefaults(), DnsAddresses()))),
            "j-worker-0");
  EXPECT_EQ(kube::Name(LeadingPod(FirstPods(job.Chief().BuildWithDefaults(), DnsAddresses()))),
            "j-chief-0");
}

// Elsewhere nobody tells the operator sooner that the replica is lost.
TEST(BuildPodTest, APodToleratesASilentNodeForLongOnlyIfItsGroupReportsLosses) {
  struct Case {
    const char* name;
    testing::JobBuilder job;
    bool watch_nodes, poll_progress, tolerates_for_long;
  };
  const auto trains = Job("j").Workers(2).Training();
  auto servers = trains, independent = trains;
  servers.ParameterServers(1).Strategy(api::StrategyType::kParameterServer);
  independent.Strategy(api::StrategyType::kIndependent);
  const Case cases[] = {
      {"a group", trains, true, true, true},
      {"its nodes are not watched", trains, false, true, false},
      {"it is not asked", trains, true, false, false},
      {"parameter servers", servers, true, true, false},
      {"processes by themselves", independent, true, true, false},
      {"another image", Job("j").Workers(2), true, true, false},
  };
  for (const Case& c : cases) {
    const api::TrainingJob job = c.job.BuildWithDefaults();
    const Settings settings{.watch_nodes = c.watch_nodes, .poll_progress = c.poll_progress};
    for (const auto& [role, spec] : job.spec.replica_specs) {
      const kube::Object pod = PodSpecOf(job, settings, role);
      ASSERT_EQ(!pod.contains("tolerations"), c.tolerates_for_long) << c.name;
      if (c.tolerates_for_long) continue;
      ASSERT_EQ(pod.at("tolerations").size(), 2U) << c.name;
      for (const kube::Object& toleration : pod.at("tolerations")) {
        EXPECT_EQ(toleration.at("tolerationSeconds"), 30) << c.name;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::controller
