#include "api/v1/validate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>

#include "api/v1/enum_names.h"
#include "api/v1/format_traits.h"
#include "tests/support/builders.h"

namespace lockstep::api {
namespace {

using lockstep::testing::Job;
using lockstep::testing::JobBuilder;
using lockstep::testing::MnistTraining;
using lockstep::testing::Template;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

// All faults, "path: message" a line.
std::string Faults(const JobBuilder& job) {
  return std::string(ToStatus(Validate(job.BuildWithDefaults())).message());
}

std::string FaultsOfNew(const JobBuilder& job) {
  return std::string(ToStatus(ValidateNew(job.BuildWithDefaults())).message());
}

JobBuilder Mnist() {
  return Job("mnist").Workers(2).Training();
}

JobBuilder MnistWith(const std::function<void(TrainingSpec&)>& change) {
  TrainingSpec training = MnistTraining();
  change(training);
  return Job("mnist").Workers(2).Training(training);
}

TEST(ValidateTest, UsualJobsAreValid) {
  EXPECT_EQ(Faults(Mnist()), "");
  EXPECT_EQ(Faults(Job("mnist").Chief().Workers(3).Training()), "");
  EXPECT_EQ(Faults(Job("one").Workers(1).Training().Strategy(StrategyType::kMirrored)), "");
  EXPECT_EQ(Faults(Job("torch").Workers(4)), "");
  EXPECT_EQ(Faults(Job("tf").Chief().Workers(2).ParameterServers(2).Evaluator()), "");
  EXPECT_EQ(
      Faults(Job("tf").Workers(2).ParameterServers(1).Strategy(StrategyType::kParameterServer)),
      "");
  EXPECT_EQ(Faults(Job("sweep").Workers(8).Strategy(StrategyType::kIndependent)), "");
  EXPECT_EQ(Faults(Job("idle").Chief().Workers(0)), "");
}

TEST(ValidateTest, RulesOfAFailurePolicyAreComplete) {
  const auto faults = [](const PodFailureRuleSpec& rule) {
    return Faults(Job("j").Workers(1).With([&rule](TrainingJob& job) {
      job.spec.run_policy.pod_failure_policy = PodFailurePolicySpec{{rule}};
    }));
  };
  const PodFailureRuleSpec good{
      FailureAction::kIgnore, {Role::kWorker}, ExitCodesSpec{ExitCodeOperator::kIn, {42}}, {}};
  EXPECT_EQ(faults(good), "");
  PodFailureRuleSpec bad = good;
  bad.action.reset();
  const std::string rule = "spec.runPolicy.podFailurePolicy.rules[0]";
  EXPECT_EQ(faults(bad), rule + ".action: found none, expected FailJob, Ignore or Count");
  bad = good;
  bad.roles.push_back(Role::kEvaluator);
  EXPECT_EQ(faults(bad),
            rule +
                ".roles: found Evaluator, expected Chief, Worker or PS: an Evaluator's failures "
                "do not end a job");
  bad = good;
  bad.on_exit_codes.reset();
  EXPECT_EQ(faults(bad), rule + ": found neither onExitCodes nor onReasons, expected one of them");
  bad.on_exit_codes.emplace();
  EXPECT_EQ(faults(bad), rule + ".onExitCodes.values: found none, expected exit codes");
  EXPECT_EQ(Faults(Job("j").Workers(1).With(
                [](TrainingJob& job) { job.spec.run_policy.pod_failure_policy.emplace(); })),
            "spec.runPolicy.podFailurePolicy.rules: found none, expected at least one");
}

JobBuilder WorkersAfterServers(DependencyStatus status) {
  return Job("j").Workers(1).ParameterServers(1).DependsOn(Role::kWorker, Role::kParameterServer,
                                                           status);
}

TEST(ValidateTest, ARoleWaitsForOthersThatTheJobHas) {
  EXPECT_EQ(Faults(WorkersAfterServers(DependencyStatus::kReady)), "");
  const std::string first = "spec.replicaSpecs.Worker.dependsOn[0]";
  EXPECT_EQ(Faults(Job("j").Workers(1).DependsOn(Role::kWorker, Role::kParameterServer,
                                                 DependencyStatus::kReady)),
            first + ".role: found PS, which the job does not have");
  EXPECT_EQ(Faults(Job("j").Workers(1).Evaluator().DependsOn(Role::kWorker, Role::kEvaluator,
                                                             DependencyStatus::kReady)),
            first +
                ".role: found Evaluator, expected Chief, Worker or PS: the other replicas do not "
                "need an Evaluator");
  EXPECT_EQ(Faults(Job("j").Workers(1).With([](TrainingJob& job) {
              job.spec.replica_specs.at(Role::kWorker).depends_on.emplace_back();
            })),
            first + ".status: found none, expected Ready or Complete\n" + first +
                ".role: found none, expected Chief, Worker or PS");
  EXPECT_EQ(
      Faults(WorkersAfterServers(DependencyStatus::kReady)
                 .DependsOn(Role::kWorker, Role::kParameterServer, DependencyStatus::kComplete)),
      "spec.replicaSpecs.Worker.dependsOn[1]: found PS a second time, expected roles to "
      "differ");
}

TEST(ValidateTest, NoRoleWaitsForItself) {
  const auto ready = DependencyStatus::kReady;
  EXPECT_EQ(Faults(Job("j").Workers(1).DependsOn(Role::kWorker, Role::kWorker, ready)),
            "spec.replicaSpecs.Worker.dependsOn: Worker waits for itself, so it would never start");
  EXPECT_EQ(Faults(WorkersAfterServers(ready)
                       .Chief()
                       .Evaluator()
                       .DependsOn(Role::kEvaluator, Role::kChief, ready)
                       .DependsOn(Role::kChief, Role::kWorker, ready)
                       .DependsOn(Role::kParameterServer, Role::kChief, ready)),
            "spec.replicaSpecs.Chief.dependsOn: Chief waits for itself, so it would never start\n"
            "spec.replicaSpecs.Worker.dependsOn: Worker waits for itself, so it would never "
            "start\n"
            "spec.replicaSpecs.PS.dependsOn: PS waits for itself, so it would never start");
}

TEST(ValidateTest, NobodyWaitsForAnEndThatComesWithTheJobs) {
  const auto complete = DependencyStatus::kComplete;
  const auto fault = [](const std::string& role, const std::string& other, const char* why) {
    return "spec.replicaSpecs." + role + ".dependsOn[0].status: found Complete of " + other +
           ", expected Ready: " + why;
  };
  EXPECT_EQ(Faults(WorkersAfterServers(complete)), "");
  EXPECT_EQ(Faults(WorkersAfterServers(complete).Strategy(StrategyType::kParameterServer)),
            fault("Worker", "PS", "parameter servers serve until the job ends"));
  EXPECT_EQ(Faults(WorkersAfterServers(complete).Training()),
            fault("Worker", "PS", "the replicas of a job with `training` end together"));
  EXPECT_EQ(Faults(WorkersAfterServers(complete).RestartPolicy(Role::kParameterServer,
                                                               RestartPolicy::kAlways)),
            fault("Worker", "PS", "replicas with restartPolicy Always never complete"));
  const auto after_chief =
      Job("j").Chief().Workers(1).DependsOn(Role::kWorker, Role::kChief, complete);
  EXPECT_EQ(
      Faults(after_chief),
      fault("Worker", "Chief", "the job ends with its Chief, unless successPolicy is AllWorkers"));
  EXPECT_EQ(Faults(JobBuilder(after_chief).SuccessPolicy(SuccessPolicy::kAllWorkers)), "");
  const auto after_workers =
      Job("j").Workers(1).Evaluator().DependsOn(Role::kEvaluator, Role::kWorker, complete);
  EXPECT_EQ(Faults(after_workers),
            fault("Evaluator", "Worker", "a job without a Chief ends with its workers"));
  EXPECT_EQ(Faults(JobBuilder(after_workers).Chief()), "");
}

// Their environment counts the Chief among the ranks.
TEST(ValidateTest, ANewJobsFrameworkIsToldOfNobodyWhoIsNeverThere) {
  const auto complete = DependencyStatus::kComplete;
  const auto fault = [](const std::string& role) {
    return "spec.replicaSpecs." + role +
           ".dependsOn: found Complete of the other role that trains, expected Ready, or no "
           "container named tensorflow, pytorch or jax: the environment of such a container counts "
           "the Chief and the workers together";
  };
  const auto job = [](const char* chief, const char* worker) {
    return Job("j")
        .Chief()
        .Workers(2)
        .ParameterServers(1)
        .SuccessPolicy(SuccessPolicy::kAllWorkers)
        .PodTemplate(Role::kChief, testing::Template(chief))
        .PodTemplate(Role::kWorker, testing::Template(worker));
  };
  for (const char* framework : {"tensorflow", "pytorch", "jax"}) {
    for (const bool is_chiefs : {false, true}) {
      const auto mixed = is_chiefs ? job(framework, "own") : job("own", framework);
      EXPECT_EQ(FaultsOfNew(JobBuilder(mixed).DependsOn(Role::kWorker, Role::kChief, complete)),
                fault("Worker"));
      EXPECT_EQ(FaultsOfNew(JobBuilder(mixed).DependsOn(Role::kChief, Role::kWorker, complete)),
                fault("Chief"));
      EXPECT_EQ(FaultsOfNew(JobBuilder(mixed)
                                .DependsOn(Role::kParameterServer, Role::kChief, complete)
                                .DependsOn(Role::kWorker, Role::kParameterServer,
                                           DependencyStatus::kReady)),
                fault("Worker"))
          << "by way of the helper";
      EXPECT_EQ(FaultsOfNew(JobBuilder(mixed)
                                .DependsOn(Role::kParameterServer, Role::kChief, complete)
                                .DependsOn(Role::kWorker, Role::kChief, DependencyStatus::kReady)),
                "");
    }
  }
  const auto own =
      job("export", "work").DependsOn(Role::kChief, Role::kWorker, DependencyStatus::kComplete);
  EXPECT_EQ(FaultsOfNew(own), "") << "programs of the user's that do not meet";
  const auto existing = job("pytorch", "pytorch").DependsOn(Role::kWorker, Role::kChief, complete);
  EXPECT_EQ(Faults(existing), "") << "one that exists goes on";
}

TEST(ValidateTest, JobNamesAreDnsLabels) {
  for (const char* name : {"", "Mnist", "1mnist", "-mnist", "mnist-", "mn_ist", "mn.ist"}) {
    EXPECT_THAT(Validate(Job(name).Workers(1).BuildWithDefaults()),
                ElementsAre(Field(&FieldError::path, "metadata.name")))
        << name;
  }
  EXPECT_EQ(Faults(Job("a").Workers(1).Namespace("No_Such")),
            "metadata.namespace: found \"No_Such\", expected at most 63 lower-case letters, "
            "digits and '-'");
}

TEST(ValidateTest, TheLongestPodNameFits63Characters) {
  // "-worker-0" leaves 54, "-worker-10" 53, "-evaluator-0" 51.
  EXPECT_EQ(Faults(Job(std::string(54, 'a')).Workers(10)), "");
  EXPECT_EQ(Faults(Job(std::string(54, 'a')).Workers(11)),
            "metadata.name: found 54 characters, expected at most 53, so that the pod name "
            "<job>-worker-10 fits 63");
  EXPECT_EQ(Faults(Job(std::string(51, 'a')).Workers(1).Evaluator()), "");
  EXPECT_EQ(Faults(Job(std::string(52, 'a')).Workers(1).Evaluator()),
            "metadata.name: found 52 characters, expected at most 51, so that the pod name "
            "<job>-evaluator-0 fits 63");
  EXPECT_EQ(Faults(Job(std::string(300, 'a')).Workers(1)),
            "metadata.name: found 300 characters, expected at most 54, so that the pod name "
            "<job>-worker-0 fits 63");
}

TEST(ValidateTest, ReplicaCountsFitTheRoles) {
  EXPECT_EQ(Faults(Job("a").Chief(2).Workers(1)),
            "spec.replicaSpecs.Chief.replicas: found 2, expected at most 1");
  EXPECT_EQ(Faults(Job("a").Workers(1).Evaluator(2)),
            "spec.replicaSpecs.Evaluator.replicas: found 2, expected at most 1");
  EXPECT_EQ(Faults(Job("a")),
            "spec.replicaSpecs: found no Worker and no Chief replica, expected at least 1 in all");
  EXPECT_EQ(Faults(Job("a").Workers(0).ParameterServers(2)),
            "spec.replicaSpecs: found no Worker and no Chief replica, expected at least 1 in all");
}

TEST(ValidateTest, AnElasticJobStaysWithinItsBounds) {
  struct Case {
    JobBuilder job;
    const char* expected;
  };
  const auto elastic = [](int workers, int min, int max) {
    return Job("a").Workers(workers).With(
        [=](TrainingJob& job) { job.spec.elastic = ElasticSpec{min, max}; });
  };
  TrainingSpec unsaved = MnistTraining();
  TrainingSpec saved = unsaved;
  saved.checkpoint.directory = "/checkpoints";
  TrainingSpec resized = saved;
  resized.batch_size = {.global = std::nullopt, .per_replica = 32};
  const Case cases[] = {
      {elastic(2, 1, 4).Training(resized),
       "spec.training.batchSize.perReplica: found with elastic, expected global: a checkpoint "
       "counts steps of one global batch"},
      {elastic(2, 1, 4), ""},
      {elastic(2, 2, 2), ""},
      {elastic(2, 3, 1), "spec.elastic.minReplicas: found 3, expected at most maxReplicas, 1"},
      {elastic(5, 1, 4),
       "spec.replicaSpecs.Worker.replicas: found 5, expected 1 to 4, the bounds of spec.elastic"},
      {elastic(1, 2, 4),
       "spec.replicaSpecs.Worker.replicas: found 1, expected 2 to 4, the bounds of spec.elastic"},
      {elastic(2, 1, 4).ParameterServers(1).Strategy(StrategyType::kParameterServer), ""},
      {elastic(2, 1, 4).Strategy(StrategyType::kIndependent),
       "spec.elastic: found with strategy Independent, expected only with MultiWorkerMirrored and "
       "ParameterServer"},
      {elastic(2, 1, 4).Training(saved), ""},
      {elastic(2, 1, 4).Training(unsaved),
       "spec.training.checkpoint.directory: found none, expected one with elastic: a job that "
       "changes its size goes on from a checkpoint"},
      {Job("a").Chief().With([](TrainingJob& job) { job.spec.elastic.emplace(); }),
       "spec.replicaSpecs.Worker: found none, expected one with elastic"},
  };
  for (const Case& c : cases) EXPECT_EQ(Faults(c.job), c.expected);
}

TEST(ValidateTest, AnElasticJobsNameHasRoomForItsLargestSize) {
  const std::string name(54, 'a');  // and "-worker-9" make 63
  const auto elastic = [&name](int max) {
    return Job(name).Workers(1).With(
        [max](TrainingJob& job) { job.spec.elastic = ElasticSpec{1, max}; });
  };
  EXPECT_EQ(Faults(elastic(10)), "");
  EXPECT_THAT(Faults(elastic(11)),
              ::testing::HasSubstr("found 54 characters, expected at most 53"));
}

TEST(ValidateTest, MinResourcesAreQuantities) {
  const auto asking = [](Json resources) {
    return Job("a").Workers(1).With([&resources](TrainingJob& job) {
      job.spec.run_policy.scheduling_policy.emplace().min_resources = resources;
    });
  };
  const std::string path = "spec.runPolicy.schedulingPolicy.minResources.";
  EXPECT_EQ(Faults(asking({{"cpu", "500m"}, {"nvidia.com/gpu", 8}})), "");
  EXPECT_EQ(Faults(asking({{"cpu", "-1"}})), path + "cpu: found \"-1\", expected at least 0");
  EXPECT_EQ(Faults(asking({{"memory", "4GiB"}})),
            path + "memory: found \"4GiB\", expected a quantity like \"2\", \"500m\" or \"4Gi\"");
}

TEST(ValidateTest, RolesFitTheStrategy) {
  EXPECT_EQ(
      Faults(Job("a").Workers(1).ParameterServers(1).Strategy(StrategyType::kMultiWorkerMirrored)),
      "spec.replicaSpecs.PS: found with strategy MultiWorkerMirrored, which has no such "
      "role");
  EXPECT_EQ(Faults(Job("a").Workers(2).Strategy(StrategyType::kMirrored)),
            "spec.replicaSpecs: found 2 training replicas with strategy Mirrored, expected 1; "
            "MultiWorkerMirrored trains on several");
  EXPECT_EQ(Faults(Job("a").Workers(2).Strategy(StrategyType::kParameterServer)),
            "spec.replicaSpecs: found no PS replica, expected at least 1 with strategy "
            "ParameterServer");
  EXPECT_EQ(Faults(Job("a").Chief().Workers(2).Strategy(StrategyType::kIndependent)),
            "spec.replicaSpecs.Chief: found with strategy Independent, which has no such role");
  EXPECT_EQ(Faults(Job("a").Workers(2).With(
                [](TrainingJob& job) { job.spec.strategy.emplace().parameter_server.emplace(); })),
            "spec.strategy.parameterServer: found with strategy MultiWorkerMirrored, expected "
            "only with ParameterServer");
}

TEST(ValidateTest, AnOwnImageNeedsContainers) {
  struct Case {
    Json tmpl;
    const char* message;
  };
  const std::string none =
      "spec.replicaSpecs.Worker.template.spec.containers: found none, expected at least 1: a job "
      "without `training` must define its containers";
  const Case cases[] = {
      {Json::object(), none.c_str()},
      {{{"spec", Json::object()}}, none.c_str()},
      {{{"spec", 3}}, "spec.replicaSpecs.Worker.template.spec: found 3, expected an object"},
      {{{"spec", {{"containers", Json::array()}}}},
       "spec.replicaSpecs.Worker.template.spec.containers: expected a list of at least 1 "
       "container"},
      {{{"spec", {{"containers", Json::array({3})}}}},
       "spec.replicaSpecs.Worker.template.spec.containers[0]: found 3, expected an object"},
      {{{"spec", {{"containers", Json::array({Json::object()})}}}},
       "spec.replicaSpecs.Worker.template.spec.containers[0].name: found none, expected a "
       "container name"},
      {{{"spec", {{"containers", Json::array({{{"name", "a"}}, {{"name", "a"}}})}}}},
       "spec.replicaSpecs.Worker.template.spec.containers[1].name: found \"a\" a second time, "
       "expected names to differ"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Faults(Job("a").Workers(1).PodTemplate(Role::kWorker, c.tmpl)), c.message) << c.tmpl;
  }
}

TEST(ValidateTest, FieldsOfATemplateHaveTheTypesOfKubernetes) {
  struct Case {
    const char *where, *value, *fault;
  };
  const Case cases[] = {
      {"/spec/initContainers", R"(["a"])",
       R"(spec.initContainers[0]: found "a", expected an object)"},
      {"/spec/volumes", R"(["a"])", R"(spec.volumes[0]: found "a", expected an object)"},
      {"/spec/volumes", R"([{"name": "v", "configMap": {"items": [{"key": 1}]}}])",
       "spec.volumes[0].configMap.items[0].key: found 1, expected a string"},
      {"/spec/terminationGracePeriodSeconds", R"("30")",
       R"(spec.terminationGracePeriodSeconds: found "30", expected an integer)"},
      {"/metadata/labels", R"({"l": 5})", "metadata.labels.l: found 5, expected a string"},
      {"/spec/containers/0/env", R"([{"name": "A", "value": 5}])",
       "spec.containers[0].env[0].value: found 5, expected a string"},
      {"/spec/containers/0/env", R"({"A": "b"})",
       "spec.containers[0].env: found an object, expected a list"},
      {"/spec/containers/0/envFrom", R"([{"configMapRef": "x"}])",
       R"(spec.containers[0].envFrom[0].configMapRef: found "x", expected an object)"},
      {"/spec/containers/0/workingDir", "5",
       "spec.containers[0].workingDir: found 5, expected a string"},
      {"/spec/containers/0/command", R"(["sleep", 5])",
       "spec.containers[0].command[1]: found 5, expected a string"},
      {"/spec/containers/0/volumeMounts", R"([{"name": 5, "mountPath": "/x"}])",
       "spec.containers[0].volumeMounts[0].name: found 5, expected a string"},
      {"/spec/containers/0/resources", R"({"limits": {"cpu": true}})",
       "spec.containers[0].resources.limits.cpu: found true, expected a quantity"},
  };
  for (const Case& c : cases) {
    Json tmpl = Template("pytorch");
    tmpl[Json::json_pointer(c.where)] = Json::parse(c.value);
    EXPECT_EQ(Faults(Job("a").Workers(1).PodTemplate(Role::kWorker, tmpl)),
              fmt::format("spec.replicaSpecs.Worker.template.{}", c.fault));
    tmpl[Json::json_pointer(c.where)] = nullptr;
    EXPECT_EQ(Faults(Job("a").Workers(1).PodTemplate(Role::kWorker, tmpl)), "") << c.where;
  }
  Json tmpl = Template("pytorch");
  tmpl["spec"]["terminationGracePeriodSeconds"] = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Faults(Job("a").Workers(1).PodTemplate(Role::kWorker, tmpl)), "");
}

TEST(ValidateTest, TfConfigFitsAVariable) {
  EXPECT_EQ(Faults(Job("j").Workers(2000)), "");
  EXPECT_THAT(
      Faults(Job("j").Workers(8000)),
      ::testing::StartsWith("spec.replicaSpecs.Worker: found replicas whose addresses make"));
  EXPECT_EQ(Faults(Job("j").Workers(8000).PodTemplate(Role::kWorker, Template("pytorch"))), "")
      << "does without";
  auto sparse = Job("j").Workers(8000).ParameterServers(4).Strategy(StrategyType::kParameterServer);
  EXPECT_NE(Faults(sparse), "");
  EXPECT_EQ(Faults(sparse.With([](TrainingJob& job) { job.spec.elastic = ElasticSpec{1, 8000}; })),
            "");
}

TEST(ValidateTest, TheTrainersConfigurationFitsAVariable) {
  const auto faults = [](std::size_t layers) {
    return Faults(MnistWith([layers](TrainingSpec& training) {
      const Json layer = {{"type", "ReLU"}, {"name", std::string(230, 'x')}};
      training.model.name = "";
      training.model.layers = Json(std::vector<Json>(layers, layer));
    }));
  };
  EXPECT_EQ(faults(450), "");
  EXPECT_THAT(faults(800), ::testing::MatchesRegex("spec.training: found 20.... bytes of JSON, "
                                                   "expected at most 128000: .*"));
}

// As an API server says when it gets the pod; and `lockstep run` makes paths of them.
TEST(ValidateTest, NamesOfContainersAreDnsLabels) {
  const auto faults = [](const std::string& list, const std::string& name) {
    Json tmpl = Template("pytorch");
    tmpl["spec"][list].push_back({{"name", name}});
    return Faults(Job("a").Workers(1).PodTemplate(Role::kWorker, tmpl));
  };
  for (const std::string name : {"a/b", "x/../y", "..", "A", "-a", "a-", "a.b"}) {
    EXPECT_EQ(
        faults("containers", name),
        fmt::format("spec.replicaSpecs.Worker.template.spec.containers[1].name: found \"{}\", "
                    "expected at most 63 lower-case letters, digits and '-', and no '-' first "
                    "or last",
                    name));
    EXPECT_THAT(
        faults("initContainers", name),
        ::testing::StartsWith("spec.replicaSpecs.Worker.template.spec.initContainers[0].name"));
  }
  EXPECT_NE(faults("containers", std::string(64, 'a')), "");
  EXPECT_EQ(faults("containers", std::string(63, 'a')), "");
  EXPECT_EQ(faults("initContainers", "0-a"), "");
  EXPECT_THAT(faults("initContainers", "pytorch"), ::testing::HasSubstr("a second time"));
}

// A job that runs must not be held for a template of which no pod is made.
TEST(ValidateTest, NamesOfContainersOfARoleWithoutReplicasAreNotChecked) {
  const auto faults = [](int evaluators) {
    return Faults(Job("a")
                      .Workers(1)
                      .Evaluator(evaluators)
                      .PodTemplate(Role::kEvaluator, Template("my_eval")));
  };
  EXPECT_EQ(faults(0), "");
  EXPECT_THAT(faults(1), ::testing::HasSubstr("found \"my_eval\""));
}

TEST(ValidateTest, APodHasAtMost256Containers) {
  const auto faults = [](int count) {
    Json crowded = {{"spec", {{"containers", Json::array()}}}};
    for (int i = 0; i < count; ++i) {
      crowded["spec"]["containers"].push_back({{"name", "c" + std::to_string(i)}});
    }
    return Faults(Job("j").Workers(1).PodTemplate(Role::kWorker, crowded));
  };
  EXPECT_EQ(faults(256), "");
  EXPECT_EQ(faults(257),
            "spec.replicaSpecs.Worker.template.spec.containers: found 257 containers, "
            "expected at most 256");
}

TEST(ValidateTest, TheWholeSpecHasABound) {
  const auto with_args = [](const Json& args) {
    Json tmpl = Template();
    tmpl["spec"]["containers"][0]["args"] = args;
    return tmpl;
  };
  const Json small = with_args(std::vector<std::string>(5000, "x"));
  const Json long_text = with_args({std::string(100'000, 'x')});
  const auto roles = [](const Json& tmpl) {
    return Job("j")
        .Chief()
        .Workers(1)
        .ParameterServers(1)
        .Evaluator()
        .PodTemplate(Role::kChief, tmpl)
        .PodTemplate(Role::kWorker, tmpl)
        .PodTemplate(Role::kParameterServer, tmpl);
  };
  EXPECT_EQ(Faults(roles(small)), "");
  EXPECT_THAT(Faults(roles(small).PodTemplate(Role::kEvaluator, small)),
              ::testing::StartsWith("spec: found 20028 values in the pod templates, training and "
                                    "minResources together, expected at most 16384"));
  EXPECT_THAT(Faults(roles(long_text)), ::testing::StartsWith("spec: found 300"));
  // A byte may take six in JSON.
  EXPECT_NE(Faults(Job("j").Workers(1).PodTemplate(Role::kWorker,
                                                   with_args({std::string(50'000, '\x01')}))),
            "");
  const auto layers = [](int count) {
    return Faults(MnistWith([count](TrainingSpec& training) {
      training.model.name = "";
      Json list = Json::array();
      for (int i = 0; i < count; ++i) list.push_back({{"type", "Dense"}, {"units", 1}});
      training.model.layers = std::move(list);
    }));
  };
  EXPECT_EQ(layers(4000), "");
  EXPECT_THAT(layers(6000), ::testing::HasSubstr("spec: found 180"));
}

TEST(ValidateTest, ExtentsOfLayersAreNumbers) {
  const auto fault = [](const Json& extent) {
    return Faults(MnistWith([&extent](TrainingSpec& training) {
      training.model = {.name = "",
                        .layers = Json::array({{{"type", "Conv2D"}, {"kernelSize", extent}}})};
    }));
  };
  for (const Json& good : {Json(3), Json({3, 5}), Json()}) EXPECT_EQ(fault(good), "") << good;
  for (const Json& bad : {Json(0), Json("3"), Json({3}), Json({3, "3"}), Json(3.5),
                          Json({{"a", 1}}), Json::parse("[[3,3],[3,3]]")}) {
    EXPECT_EQ(fault(bad),
              "spec.training.model.layers[0].kernelSize: expected an integer of at least 1, or a "
              "list of two, height and width");
  }
}

TEST(ValidateTest, TrainingMayLeaveContainersOut) {
  EXPECT_EQ(Faults(Mnist().PodTemplate(Role::kWorker, {{"spec", {{"nodeName", "n"}}}})), "");
  EXPECT_EQ(Faults(Mnist().PodTemplate(Role::kWorker, {{"spec", {{"containers", Json::array()}}}})),
            "spec.replicaSpecs.Worker.template.spec.containers: expected a list of at least 1 "
            "container");
}

TEST(ValidateTest, OnlyTheBundledTrainerRestartsInPlace) {
  EXPECT_EQ(Faults(Mnist().RestartScope(RestartScope::kInPlace)), "");
  EXPECT_EQ(Faults(Job("a").Workers(1).RestartScope(RestartScope::kInPlace)),
            "spec.restartScope: found InPlace without training, expected Gang or Pod: only the "
            "bundled trainer takes a restarted member back");
}

TEST(ValidateTest, ANewJobOfTheBundledTrainerIsNotScaledPodByPod) {
  const auto elastic = [](RestartScope scope) {
    return Mnist().RestartScope(scope).With([](TrainingJob& job) {
      job.spec.elastic = ElasticSpec{1, 4};
      job.spec.training->checkpoint.directory = "/checkpoints";
    });
  };
  EXPECT_EQ(FaultsOfNew(elastic(RestartScope::kPod)),
            "spec.restartScope: found Pod with training and elastic, expected InPlace or Gang: the "
            "bundled trainer's group would wait for ever for workers that come or go one by one");
  EXPECT_EQ(FaultsOfNew(elastic(RestartScope::kInPlace)), "");
  EXPECT_EQ(FaultsOfNew(elastic(RestartScope::kGang)), "");
  EXPECT_EQ(FaultsOfNew(Mnist().RestartScope(RestartScope::kPod)), "") << "not elastic";
  EXPECT_EQ(Faults(elastic(RestartScope::kPod)), "") << "one that exists goes on";
}

TEST(ValidateTest, TrainingFaults) {
  struct Case {
    std::function<void(TrainingSpec&)> change;
    const char* message;
  };
  const Case cases[] = {
      {[](TrainingSpec& t) { t.model.name = ""; },
       "spec.training.model: found neither name nor layers, expected exactly one"},
      {[](TrainingSpec& t) { t.model.layers = Json::array({{{"type", "Dense"}}}); },
       "spec.training.model: found both name and layers, expected exactly one"},
      {[](TrainingSpec& t) { t.model.zero_gamma = true; },
       "spec.training.model.zeroGamma: found true, expected it only with a model.name of a ResNet; "
       "layers have gammaInitializer"},
      {[](TrainingSpec& t) { t.model.name = "core_cnn"; },
       "spec.training.model.name: found \"core_cnn\"; did you mean \"core-cnn\"?"},
      {[](TrainingSpec& t) { t.model = {"", Json::array({Json::object()})}; },
       "spec.training.model.layers[0].type: found none, expected a layer type, such as "
       "\"Dense\""},
      {[](TrainingSpec& t) { t.dataset.path = ""; },
       "spec.training.dataset.path: found none, expected the folder of the idx files"},
      {[](TrainingSpec& t) { t.dataset.path = "data"; },
       "spec.training.dataset.path: found \"data\", expected an absolute path in the container"},
      {[](TrainingSpec& t) { t.dataset.synthetic.emplace(); },
       "spec.training.dataset.synthetic: found with format idx, expected only with format "
       "synthetic"},
      {[](TrainingSpec& t) { t.dataset.format = DatasetFormat::kImageFolder; },
       "spec.training.dataset.imageSize: found 0 numbers, expected 2: height and width"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kImageFolder;
         t.dataset.image_size = {8, 8};
         t.dataset.image_channels = 2;
       },
       "spec.training.dataset.imageChannels: found 2, expected 1 (gray) or 3 (RGB)"},
      {[](TrainingSpec& t) { t.dataset.image_size = {8, 8}; },
       "spec.training.dataset.imageSize: found with format idx, expected only with "
       "imageFolder, or with tfrecord without a shape"},
      {[](TrainingSpec& t) { t.dataset.image_channels = 1; },
       "spec.training.dataset.imageChannels: found with format idx, expected only with "
       "imageFolder, or with tfrecord without a shape"},
      {[](TrainingSpec& t) { t.dataset.interpolation = Interpolation::kArea; },
       "spec.training.dataset.interpolation: found with format idx, expected only with "
       "imageFolder, or with tfrecord without a shape"},
      {[](TrainingSpec& t) { t.dataset.tfrecord.emplace(); },
       "spec.training.dataset.tfrecord: found with format idx, expected only with format "
       "tfrecord"},
      {[](TrainingSpec& t) { t.dataset.format = DatasetFormat::kTfRecord; },
       "spec.training.dataset.imageSize: found 0 numbers, expected 2: height and width"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kTfRecord;
         t.dataset.tfrecord.emplace().shape = {65'536, 65'536};
       },
       "spec.training.dataset.tfrecord.shape: found 2 extents, expected at most 8 and at most "
       "67108864 elements"},
      {[](TrainingSpec& t) { t.dataset.npy.emplace(); },
       "spec.training.dataset.npy: found with format idx, expected only with format npy"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kCsv;
         t.dataset.augment.emplace();
       },
       "spec.training.dataset.augment: found with format csv, expected only with images"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kTfRecord;
         t.dataset.tfrecord.emplace().shape = {784};
         t.dataset.augment.emplace();
       },
       "spec.training.dataset.augment: found with samples of 1 extents, expected only with images, "
       "which have 3"},
      {[](TrainingSpec& t) {  // what is there for another format says nothing of the samples
         t.dataset.tfrecord.emplace().shape = {784};
         t.dataset.augment.emplace();
       },
       "spec.training.dataset.tfrecord: found with format idx, expected only with format tfrecord"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kImageFolder;
         t.dataset.image_size = {64, 32};
         t.dataset.augment = AugmentSpec{.random_crop = RandomCropSpec{32}};
       },
       "spec.training.dataset.augment.randomCrop.padding: found 32 for images of 64x32 pixels, "
       "expected less than the shorter side"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kCifar;
         t.dataset.augment = AugmentSpec{.cutout = CutoutSpec{33}};
       },
       "spec.training.dataset.augment.cutout.size: found 33 for images of 32x32 pixels, expected "
       "at "
       "most the shorter side"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kSynthetic;
         t.dataset.path.clear();
         t.dataset.augment = AugmentSpec{.cutout = CutoutSpec{29}};
       },
       "spec.training.dataset.augment.cutout.size: found 29 for images of 28x28 pixels, expected "
       "at "
       "most the shorter side"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kCsv;
         t.dataset.normalize = NormalizeSpec{{0.5}, {0.5}};
       },
       "spec.training.dataset.normalize: found with format csv, expected only with images"},
      {[](TrainingSpec& t) { t.dataset.normalize = NormalizeSpec{{0.5}, {0.5, 0.5}}; },
       "spec.training.dataset.normalize.std: found 2 numbers, expected 1, as many as mean has"},
      {[](TrainingSpec& t) { t.dataset.normalize = NormalizeSpec{{1, 1, 1, 1}, {1, 1, 1, 1}}; },
       "spec.training.dataset.normalize.mean: found 4 numbers, expected 1 to 3: one for each "
       "channel"},
      {[](TrainingSpec& t) { t.dataset.cache_directory = "/cache"; },
       "spec.training.dataset.cacheDirectory: found with format idx, expected only with "
       "imageFolder, or with tfrecord without a shape"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kImageFolder;
         t.dataset.image_size = {8, 8};
         t.dataset.cache_directory = "cache";
       },
       "spec.training.dataset.cacheDirectory: found \"cache\", expected an absolute path in the "
       "container"},
      {[](TrainingSpec& t) { t.dataset.csv.emplace(); },
       "spec.training.dataset.csv: found with format idx, expected only with format csv"},
      {[](TrainingSpec& t) {
         t.dataset.format = DatasetFormat::kCsv;
         t.dataset.csv.emplace().label_column = "";
       },
       "spec.training.dataset.csv.labelColumn: found none, expected a column's name"},
      {[](TrainingSpec& t) {
         t.dataset = {.format = DatasetFormat::kSynthetic, .validation_fraction = 0.5};
       },
       "spec.training.dataset.validationFraction: found with format synthetic, expected "
       "testExamples in dataset.synthetic"},
      {[](TrainingSpec& t) { t.dataset.format = DatasetFormat::kSynthetic; },
       "spec.training.dataset.path: found with format synthetic, which reads no files"},
      {[](TrainingSpec& t) {
         t.dataset = {};
         t.dataset.format = DatasetFormat::kSynthetic;
         t.dataset.synthetic.emplace().shape = {28, 28};
       },
       "spec.training.dataset.synthetic.shape: found 2 dimensions, expected 3: channels, height, "
       "width"},
      {[](TrainingSpec& t) { t.batch_size.per_replica = 64; },
       "spec.training.batchSize: found both global and perReplica, expected exactly one"},
      {[](TrainingSpec& t) { t.batch_size = {}; },
       "spec.training.batchSize: found neither global nor perReplica, expected exactly one"},
      {[](TrainingSpec& t) { t.batch_size.global = 1; },
       "spec.training.batchSize.global: found 1, expected at least 2: one sample for each "
       "process"},
      {[](TrainingSpec& t) { t.steps = 100; },
       "spec.training: found both epochs and steps, expected exactly one"},
      {[](TrainingSpec& t) { t.epochs.reset(); },
       "spec.training: found neither epochs nor steps, expected exactly one"},
      {[](TrainingSpec& t) { t.optimizer.name = "adam"; },
       "spec.training.optimizer.name: found \"adam\"; did you mean \"Adam\"?"},
      {[](TrainingSpec& t) { t.optimizer.momentum = 0.9; },
       "spec.training.optimizer.momentum: found with Adam, expected only with SGD or RMSprop "
       "or LARS"},
      {[](TrainingSpec& t) { t.optimizer.name = "Muon", t.optimizer.momentum = 0.9; },
       "spec.training.optimizer.momentum: found with Muon, expected only with SGD or RMSprop "
       "or LARS"},
      {[](TrainingSpec& t) { t.optimizer.muon_momentum = 0; },
       "spec.training.optimizer.muonMomentum: found with Adam, expected only with Muon"},
      {[](TrainingSpec& t) { t.optimizer.muon_nesterov = false; },
       "spec.training.optimizer.muonNesterov: found with Adam, expected only with Muon"},
      {[](TrainingSpec& t) { t.optimizer.adam_lr_ratio = 0.5; },
       "spec.training.optimizer.adamLrRatio: found with Adam, expected only with Muon"},
      {[](TrainingSpec& t) { t.optimizer.exclude_layers = {"dense"}; },
       "spec.training.optimizer.excludeLayers: found with Adam, expected only with Muon"},
      {[](TrainingSpec& t) {
         t.optimizer.name = "Muon", t.optimizer.exclude_layers = {"dense", ""};
       },
       "spec.training.optimizer.excludeLayers[1]: found an empty text, which every name contains; "
       "expected a part of a name"},
      {[](TrainingSpec& t) { t.optimizer.name = "Muon", t.optimizer.rho = 0.5; },
       "spec.training.optimizer.rho: found with Muon, expected only with RMSprop"},
      {[](TrainingSpec& t) { t.optimizer.nesterov = true; },
       "spec.training.optimizer.nesterov: found with Adam, expected only with SGD or LARS"},
      {[](TrainingSpec& t) { t.optimizer.name = "Adagrad", t.optimizer.rho = 0.8; },
       "spec.training.optimizer.rho: found with Adagrad, expected only with RMSprop"},
      {[](TrainingSpec& t) { t.optimizer.name = "SGD", t.optimizer.epsilon = 0.1; },
       "spec.training.optimizer.epsilon: found with SGD, expected only with Adam or RMSprop or "
       "Adagrad or LAMB or Muon"},
      {[](TrainingSpec& t) { t.optimizer.initial_accumulator_value = 0; },
       "spec.training.optimizer.initialAccumulatorValue: found with Adam, expected only with "
       "Adagrad"},
      {[](TrainingSpec& t) { t.optimizer.name = "SGD", t.optimizer.beta1 = 0.5; },
       "spec.training.optimizer.beta1: found with SGD, expected only with Adam or LAMB or Muon"},
      {[](TrainingSpec& t) { t.optimizer.name = "LAMB", t.optimizer.trust_coefficient = 0.1; },
       "spec.training.optimizer.trustCoefficient: found with LAMB, expected only with LARS"},
      {[](TrainingSpec& t) { t.optimizer.name = "LARS", t.optimizer.nesterov = true; },
       "spec.training.optimizer.nesterov: found without momentum, expected momentum above 0"},
      {[](TrainingSpec& t) { t.optimizer.name = "SGD", t.optimizer.nesterov = true; },
       "spec.training.optimizer.nesterov: found without momentum, expected momentum above 0"},
      {[](TrainingSpec& t) { t.learning_rate_schedule.final_fraction = 0.1; },
       "spec.training.learningRateSchedule.finalFraction: found with type Constant, expected "
       "only with Cosine or Polynomial"},
      {[](TrainingSpec& t) {
         t.learning_rate_schedule = {.type = ScheduleType::kCosine, .factor = 0.5};
       },
       "spec.training.learningRateSchedule.factor: found with type Cosine, expected only with "
       "Step or Exponential"},
      {[](TrainingSpec& t) {
         t.learning_rate_schedule = {.type = ScheduleType::kPolynomial, .every_steps = 5};
       },
       "spec.training.learningRateSchedule.everySteps: found with type Polynomial, expected only "
       "with Step or Exponential"},
      {[](TrainingSpec& t) { t.learning_rate_schedule.type = ScheduleType::kStep; },
       "spec.training.learningRateSchedule.everySteps: found none, expected a number of steps "
       "with type Step"},
      {[](TrainingSpec& t) {
         t.learning_rate_schedule = {
             .type = ScheduleType::kExponential, .every_steps = 5, .power = 2};
       },
       "spec.training.learningRateSchedule.power: found with type Exponential, expected only with "
       "Polynomial"},
      {[](TrainingSpec& t) {
         t.epochs.reset();
         t.steps = 10;
         t.learning_rate_schedule.warmup_steps = 11;
       },
       "spec.training.learningRateSchedule.warmupSteps: found 11, expected at most steps, 10"},
      {[](TrainingSpec& t) {
         t.learning_rate_schedule = {.type = ScheduleType::kOneCycle, .warmup_steps = 5};
       },
       "spec.training.learningRateSchedule.warmupSteps: found 5 with type OneCycle, expected 0: it "
       "has its own warm-up"},
      {[](TrainingSpec& t) {
         t.early_stopping.emplace();
         t.evaluation.enabled = false;
       },
       "spec.training.earlyStopping: found with evaluation.enabled false, expected true: it "
       "compares evaluations"},
      {[](TrainingSpec& t) {
         t.early_stopping.emplace().restore_best = true;
         t.ema.emplace();
       },
       "spec.training.earlyStopping.restoreBest: found true with ema, expected one of both: the "
       "average is what the run ends with"},
      {[](TrainingSpec& t) { t.early_stopping.emplace().metric = BestMetric::kMeanAbsoluteError; },
       "spec.training.earlyStopping.metric: found MeanAbsoluteError with loss "
       "SparseCategoricalCrossentropy, expected Accuracy or Loss; evaluation.metrics says what "
       "else "
       "is measured"},
      {[](TrainingSpec& t) {
         t.loss.type = LossType::kBinaryCrossentropy;
         t.evaluation.metrics = {TestMetric::kRecall};
         t.early_stopping.emplace().metric = BestMetric::kAuc;
       },
       "spec.training.earlyStopping.metric: found AUC with loss BinaryCrossentropy, expected "
       "Accuracy or Loss or Recall; evaluation.metrics says what else is measured"},
      {[](TrainingSpec& t) {
         t.evaluation = {.metrics = {TestMetric::kTopKCategoricalAccuracy, TestMetric::kAuc}};
       },
       "spec.training.evaluation.metrics[1]: found AUC with loss SparseCategoricalCrossentropy, "
       "expected TopKCategoricalAccuracy"},
      {[](TrainingSpec& t) {
         t.loss.type = LossType::kBinaryCrossentropy;
         t.evaluation.metrics = {TestMetric::kMeanSquaredError};
       },
       "spec.training.evaluation.metrics[0]: found MeanSquaredError with loss BinaryCrossentropy, "
       "expected AUC or Precision or Recall"},
      {[](TrainingSpec& t) {
         t.loss.type = LossType::kHuber;
         t.dataset = {.format = DatasetFormat::kSynthetic};
         t.evaluation.metrics = {TestMetric::kPrecision};
       },
       "spec.training.evaluation.metrics[0]: found Precision with loss Huber, expected "
       "MeanSquaredError or RootMeanSquaredError"},
      {[](TrainingSpec& t) {
         t.evaluation = {.enabled = false, .metrics = {TestMetric::kTopKCategoricalAccuracy}};
       },
       "spec.training.evaluation.metrics: found with enabled false, expected none: only an "
       "evaluation measures them"},
      {[](TrainingSpec& t) { t.checkpoint.directory = "checkpoints"; },
       "spec.training.checkpoint.directory: found \"checkpoints\", expected an absolute path in "
       "the container"},
      {[](TrainingSpec& t) { t.checkpoint.export_to = "model.onnx"; },
       "spec.training.checkpoint.exportTo: found \"model.onnx\", expected an absolute path in the "
       "container"},
      {[](TrainingSpec& t) { t.checkpoint.export_to = "/checkpoints/model.pt"; },
       "spec.training.checkpoint.exportTo: found \"/checkpoints/model.pt\", expected a file that "
       "ends in .onnx or .safetensors"},
      {[](TrainingSpec& t) { t.checkpoint.export_to = "/checkpoints/.onnx"; },
       "spec.training.checkpoint.exportTo: found \"/checkpoints/.onnx\", expected a file that ends "
       "in .onnx or .safetensors"},
      {[](TrainingSpec& t) { t.initial_weights.path = "pretrained.safetensors"; },
       "spec.training.initialWeights.path: found \"pretrained.safetensors\", expected an absolute "
       "path in the container"},
      {[](TrainingSpec& t) { t.initial_weights.exclude = {"dense"}; },
       "spec.training.initialWeights.exclude: found without path, expected the path of a file"},
      {[](TrainingSpec& t) { t.initial_weights = {"/pretrained.safetensors", {"dense", ""}}; },
       "spec.training.initialWeights.exclude[1]: found an empty text, which every name contains; "
       "expected a part of a name"},
      {[](TrainingSpec& t) { t.summaries.directory = "./logs"; },
       "spec.training.summaries.directory: found \"./logs\", expected an absolute path in the "
       "container"},
  };
  for (const Case& c : cases) EXPECT_EQ(Faults(MnistWith(c.change)), c.message);
}

TEST(ValidateTest, OneFileIsNotDealtToSeveralReplicas) {
  for (const auto& [format, name] : kEnumNames<DatasetFormat>) {
    if (TraitsOf(format).is_generated) continue;
    const auto job = [&, format = format](int workers) {
      return MnistWith([&](TrainingSpec& t) {
               t.dataset.format = format;
               t.dataset.auto_shard = AutoShard::kFile;
               t.checkpoint.directory = "/checkpoints";
               if (TraitsOf(format).decodes_images) t.dataset.image_size = {28, 28};
             })
          .Workers(workers);
    };
    EXPECT_EQ(Faults(job(1)), "") << name;
    const auto fault = [&, name = name](int replicas) {
      if (MayHaveFiles(TraitsOf(format))) return std::string();
      return fmt::format(
          "spec.training.dataset.autoShard: found File with format {}, whose training samples are "
          "in one file, for {} replicas; expected Auto or Data, or format cifar, imageFolder or "
          "tfrecord",
          name, replicas);
    };
    EXPECT_EQ(Faults(job(2)), fault(2));
    EXPECT_EQ(Faults(job(1).With([](TrainingJob& j) { j.spec.elastic = ElasticSpec{1, 4}; })),
              fault(4));
    EXPECT_EQ(Faults(job(2).With([](TrainingJob& j) {
                j.spec.strategy.emplace().type = StrategyType::kMultiWorkerMirrored;
                j.spec.strategy->stages = 2;
              })),
              "")
        << name << ": one pipeline";
  }
}

TEST(ValidateTest, EachFormatTakesWhatItsTraitsSay) {
  for (const auto& [each, name] : kEnumNames<DatasetFormat>) {
    const DatasetFormat format = each;
    const FormatTraits traits = TraitsOf(format);
    const auto faults = [&](const std::function<void(TrainingSpec&)>& change) {
      return Faults(MnistWith([&](TrainingSpec& training) {
        DatasetSpec& dataset = training.dataset;
        dataset.format = format;
        if (traits.is_generated) dataset.path.clear();
        if (traits.decodes_images) dataset.image_size = {28, 28};
        change(training);
      }));
    };
    EXPECT_EQ(faults([](TrainingSpec&) {}), "") << name;
    EXPECT_EQ(faults([](TrainingSpec& t) { t.dataset.image_size = {28, 28}; }).empty(),
              traits.decodes_images)
        << name;
    EXPECT_EQ(faults([](TrainingSpec& t) { t.dataset.augment.emplace(); }).empty(),
              traits.may_be_images)
        << name;
    EXPECT_EQ(faults([](TrainingSpec& t) { t.loss.type = LossType::kMeanSquaredError; }).empty(),
              MayHaveNumbers(traits))
        << name;
    EXPECT_EQ(
        faults([](TrainingSpec& t) { t.loss.type = LossType::kCategoricalCrossentropy; }).empty(),
        traits.labels == FormatLabels::kNumbers)
        << name;
    EXPECT_EQ(faults([](TrainingSpec& t) { t.dataset.path = "/data"; }).empty(),
              !traits.is_generated)
        << name;
  }
}

TEST(ValidateTest, BatchesAreSplitOverAllProcesses) {
  EXPECT_EQ(Faults(Mnist().ProcessesPerPod(64)), "");
  EXPECT_EQ(Faults(Mnist().ProcessesPerPod(65)),
            "spec.training.batchSize.global: found 128, expected at least 130: one sample for "
            "each process");
}

TEST(ValidateTest, EachStageOfAPipelineHasAProcess) {
  const auto with = [](int processes, int stages) {
    return Mnist().ProcessesPerPod(processes).Stages(stages);
  };
  for (const int stages : {1, 2, 3, 6}) EXPECT_EQ(Faults(with(3, stages)), "") << stages;
  EXPECT_EQ(Faults(with(3, 4)),
            "spec.strategy.stages: found 4, expected a number that divides 6, the processes that "
            "train: a pipeline has a process for each stage");
  EXPECT_EQ(Faults(with(1, 4)),
            "spec.strategy.stages: found 4, expected a number that divides 2, the processes that "
            "train: a pipeline has a process for each stage");
  EXPECT_EQ(Faults(with(2, 3).Chief()), "");
  EXPECT_EQ(Faults(with(2, 3).Evaluator().With([](TrainingJob& job) {
              job.spec.replica_specs[Role::kWorker].replicas = 3;
              job.spec.training->checkpoint.directory = "/checkpoints";
            })),
            "");
  const auto mirrored = Job("one").Workers(1).Training().Strategy(StrategyType::kMirrored);
  EXPECT_EQ(Faults(JobBuilder(mirrored).ProcessesPerPod(4).Stages(4)), "");
}

// The GPUs of a pod's containers are its processes if the job does not say.
TEST(ValidateTest, StagesDivideTheProcessesThatGpusMake) {
  const auto gpus = [](int count) {
    Json tmpl = Template();
    tmpl["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = count;
    return Mnist().PodTemplate(Role::kWorker, tmpl).Stages(4);
  };
  EXPECT_EQ(Faults(gpus(2)), "");
  EXPECT_EQ(Faults(gpus(3)),
            "spec.strategy.stages: found 4, expected a number that divides 6, the processes that "
            "train: a pipeline has a process for each stage");
}

TEST(ValidateTest, OnlyTheBundledTrainerHasStagesAndOnlyWithStrategiesOfReplicas) {
  const auto one_pod = [](StrategyType type) {
    return Job("j").Workers(1).Training().Strategy(type).ProcessesPerPod(2).Stages(2);
  };
  const std::string only = ", expected only with Mirrored and MultiWorkerMirrored";
  EXPECT_EQ(Faults(one_pod(StrategyType::kMirrored)), "");
  EXPECT_EQ(Faults(one_pod(StrategyType::kMultiWorkerMirrored)), "");
  for (const auto& [type, name] : {std::pair{StrategyType::kCentralStorage, "CentralStorage"},
                                   {StrategyType::kIndependent, "Independent"}}) {
    EXPECT_EQ(Faults(one_pod(type)),
              std::string("spec.strategy.stages: found 2 with strategy ") + name + only);
  }
  EXPECT_EQ(Faults(one_pod(StrategyType::kParameterServer).ParameterServers(1)),
            "spec.strategy.stages: found 2 with strategy ParameterServer" + only);
  EXPECT_EQ(Faults(Job("torch").Workers(2).Stages(2)),
            "spec.strategy.stages: found 2 without training, expected 1: only the bundled trainer "
            "cuts a model into stages");
  EXPECT_EQ(Faults(Mnist().Stages(2).With([](TrainingJob& job) {
              job.spec.elastic = ElasticSpec{.min_replicas = 2, .max_replicas = 4};
              job.spec.training->checkpoint.directory = "/checkpoints";
            })),
            "spec.elastic: not supported yet with stages");
}

TEST(ValidateTest, OnlyTheBundledTrainerShardsStateAndOnlyWithStrategiesOfReplicas) {
  const auto one_pod = [](StrategyType type) {
    return Job("j").Workers(1).Training().Strategy(type).ProcessesPerPod(2).ShardsState();
  };
  const std::string only = ", expected only with Mirrored and MultiWorkerMirrored";
  EXPECT_EQ(Faults(one_pod(StrategyType::kMirrored)), "");
  EXPECT_EQ(Faults(one_pod(StrategyType::kMultiWorkerMirrored)), "");
  for (const auto& [type, name] : {std::pair{StrategyType::kCentralStorage, "CentralStorage"},
                                   {StrategyType::kIndependent, "Independent"}}) {
    EXPECT_EQ(Faults(one_pod(type)),
              std::string("spec.strategy.sharding: found ZeRO1 with strategy ") + name + only);
  }
  EXPECT_EQ(Faults(one_pod(StrategyType::kParameterServer).ParameterServers(1)),
            "spec.strategy.sharding: found ZeRO1 with strategy ParameterServer" + only);
  EXPECT_EQ(Faults(Job("torch").Workers(2).ShardsState()),
            "spec.strategy.sharding: found ZeRO1 without training, expected None: only the bundled "
            "trainer shards the optimizer's state");
  EXPECT_EQ(Faults(Mnist().Stages(2).ShardsState()),
            "spec.strategy.sharding: found ZeRO1 with 2 stages, which is not supported yet; "
            "expected None");
  EXPECT_EQ(Faults(Mnist().ShardsState().With([](TrainingJob& job) {
              job.spec.elastic = ElasticSpec{.min_replicas = 2, .max_replicas = 4};
              job.spec.training->checkpoint.directory = "/checkpoints";
            })),
            "spec.elastic: not supported yet with sharding");
}

TEST(ValidateTest, BatchesAreSplitOverPipelines) {
  EXPECT_EQ(Faults(Mnist().ProcessesPerPod(128).Stages(2)), "");
  EXPECT_EQ(Faults(Mnist().ProcessesPerPod(130).Stages(2)),
            "spec.training.batchSize.global: found 128, expected at least 130: one sample for "
            "each pipeline");
}

TEST(ValidateTest, ABatchOfAsynchronousParameterServersIsThatOfOneWorker) {
  const auto job = [](ParameterServerMode mode) {
    return Faults(MnistWith([](TrainingSpec& training) { training.batch_size.global = 1; })
                      .ParameterServers(1)
                      .Strategy(StrategyType::kParameterServer)
                      .With([mode](TrainingJob& changed) {
                        changed.spec.strategy->parameter_server.emplace().mode = mode;
                      }));
  };
  EXPECT_EQ(job(ParameterServerMode::kAsync), "");
  EXPECT_EQ(job(ParameterServerMode::kSync),
            "spec.training.batchSize.global: found 1, expected at least 2: one sample for each "
            "process");
}

TEST(ValidateTest, AnEvaluatorNeedsCheckpointsAndATestSet) {
  const auto with = [](const std::function<void(TrainingSpec&)>& change, int evaluators = 1) {
    return Faults(MnistWith([&](TrainingSpec& training) {
                    training.checkpoint.directory = "/checkpoints";
                    change(training);
                  }).Evaluator(evaluators));
  };
  EXPECT_EQ(with([](TrainingSpec&) {}), "");
  EXPECT_EQ(with([](TrainingSpec& t) { t.checkpoint.keep_best = BestMetric::kLoss; }), "");
  const auto keep = [&with](BestMetric best, LossType loss) {
    return with([=](TrainingSpec& t) {
      t.checkpoint.keep_best = best;
      t.loss.type = loss;
      t.dataset = {.format = DatasetFormat::kSynthetic};
    });
  };
  EXPECT_EQ(keep(BestMetric::kLoss, LossType::kHuber), "");
  EXPECT_EQ(keep(BestMetric::kMeanAbsoluteError, LossType::kHuber), "");
  EXPECT_EQ(keep(BestMetric::kAccuracy, LossType::kHuber),
            "spec.training.checkpoint.keepBest: found Accuracy with loss Huber, expected "
            "MeanAbsoluteError or Loss; evaluation.metrics says what else is measured");
  EXPECT_EQ(keep(BestMetric::kMeanAbsoluteError, LossType::kBinaryCrossentropy),
            "spec.training.checkpoint.keepBest: found MeanAbsoluteError with loss "
            "BinaryCrossentropy, expected Accuracy or Loss; evaluation.metrics says what else is "
            "measured");
  EXPECT_EQ(keep(BestMetric::kAuc, LossType::kBinaryCrossentropy),
            "spec.training.checkpoint.keepBest: found AUC with loss BinaryCrossentropy, expected "
            "Accuracy or Loss; evaluation.metrics says what else is measured");
  EXPECT_EQ(with([](TrainingSpec& t) { t.checkpoint.directory.clear(); }),
            "spec.training.checkpoint.directory: found none, expected one with an Evaluator: it "
            "evaluates checkpoints");
  EXPECT_EQ(with([](TrainingSpec& t) { t.early_stopping.emplace(); }),
            "spec.training.earlyStopping: found with an Evaluator, expected none: beside an "
            "Evaluator, the replicas that train do not evaluate");
  EXPECT_EQ(with([](TrainingSpec& t) { t.early_stopping.emplace(); }, 0), "");
  EXPECT_EQ(with([](TrainingSpec& t) { t.evaluation.enabled = false; }),
            "spec.training.evaluation.enabled: found false, expected true with an Evaluator, which "
            "only evaluates");
  EXPECT_EQ(with([](TrainingSpec& t) { t.checkpoint.keep_best = BestMetric::kAccuracy; }, 0),
            "spec.training.checkpoint.keepBest: found without an Evaluator, expected one in "
            "spec.replicaSpecs: only an Evaluator keeps the best checkpoint");
}

TEST(ValidateTest, WhatEvaluationMetricsNamesMayChooseTheBest) {
  const auto with = [](const std::function<void(TrainingSpec&)>& change, int evaluators) {
    return Faults(MnistWith([&](TrainingSpec& training) {
                    training.evaluation.metrics = {TestMetric::kTopKCategoricalAccuracy};
                    training.checkpoint.directory = "/checkpoints";
                    change(training);
                  }).Evaluator(evaluators));
  };
  const auto best = BestMetric::kTopKCategoricalAccuracy;
  EXPECT_EQ(with([=](TrainingSpec& t) { t.early_stopping.emplace().metric = best; }, 0), "");
  EXPECT_EQ(with([=](TrainingSpec& t) { t.checkpoint.keep_best = best; }, 1), "");
}

TEST(ValidateTest, NcclIsForStrategiesThatSumGradients) {
  const auto with = [](StrategyType type) {
    return Mnist().Workers(1).With([=](TrainingJob& job) {
      job.spec.strategy = StrategySpec{.type = type, .communication = Communication::kNccl};
    });
  };
  for (const StrategyType type : {StrategyType::kMirrored, StrategyType::kMultiWorkerMirrored,
                                  StrategyType::kCentralStorage}) {
    EXPECT_EQ(Faults(with(type)), "");
  }
  EXPECT_EQ(Faults(with(StrategyType::kIndependent)),
            "spec.strategy.communication: found NCCL with strategy Independent, whose processes "
            "sum no gradients; expected Auto or Ring");
}

TEST(ValidateTest, TheControllerOfCentralStorageIsACpu) {
  const auto with = [](StrategyType type, ControllerDevice device) {
    return Mnist().Workers(1).With([=](TrainingJob& job) {
      job.spec.strategy = StrategySpec{.type = type,
                                       .processes_per_pod = 2,
                                       .parameter_server = std::nullopt,
                                       .central_storage = CentralStorageSpec{device}};
    });
  };
  EXPECT_EQ(Faults(Mnist().Workers(1).Strategy(StrategyType::kCentralStorage)), "");
  EXPECT_EQ(Faults(with(StrategyType::kCentralStorage, ControllerDevice::kCpu)), "");
  EXPECT_EQ(Faults(with(StrategyType::kCentralStorage, ControllerDevice::kGpu)),
            "spec.strategy.centralStorage.controllerDevice: GPU is not supported yet by the "
            "bundled trainer; expected CPU");
  EXPECT_EQ(Faults(with(StrategyType::kMirrored, ControllerDevice::kCpu)),
            "spec.strategy.centralStorage: found with strategy Mirrored, expected only with "
            "CentralStorage");
}

TEST(ValidateTest, ParameterServersTrainWithWhatTheySupport) {
  const auto with = [](const ParameterServerSpec& servers) {
    return Mnist().ParameterServers(2).With([servers](TrainingJob& job) {
      job.spec.strategy = StrategySpec{.type = StrategyType::kParameterServer,
                                       .processes_per_pod = std::nullopt,
                                       .parameter_server = servers,
                                       .central_storage = std::nullopt};
    });
  };
  const ParameterServerSpec sync{.mode = ParameterServerMode::kSync};
  EXPECT_EQ(Faults(Mnist().ParameterServers(1)), "");
  EXPECT_EQ(Faults(with({})), "");
  EXPECT_EQ(Faults(with(sync)), "");
  EXPECT_EQ(Faults(with({.backup_workers = 1})),
            "spec.strategy.parameterServer: backupWorkers are not supported yet by the bundled "
            "trainer; expected 0");
  const auto float16 = [](TrainingJob& job) { job.spec.training->precision = Precision::kFloat16; };
  EXPECT_EQ(Faults(with({}).With(float16)),
            "spec.training.precision: Float16 is not supported yet with strategy ParameterServer, "
            "whose servers do not scale the loss; expected Float32 or BFloat16");
  const auto elastic = [](TrainingJob& job) {
    job.spec.elastic = ElasticSpec{.min_replicas = 1, .max_replicas = 4};
    job.spec.training->checkpoint.directory = "/checkpoints";
  };
  EXPECT_EQ(Faults(with({}).With(elastic)),
            "spec.elastic: not supported yet by the bundled trainer with strategy ParameterServer");
  const auto best = [](TrainingJob& job) {
    job.spec.training->early_stopping = EarlyStoppingSpec{.restore_best = true};
    job.spec.training->checkpoint.directory = "/checkpoints";
  };
  EXPECT_EQ(Faults(with({}).With(best)), "");
  const auto best_without_checkpoints = [](TrainingJob& job) {
    job.spec.training->early_stopping = EarlyStoppingSpec{.restore_best = true};
    job.spec.training->checkpoint.directory = "";
  };
  EXPECT_EQ(Faults(with({}).With(best_without_checkpoints)),
            "spec.training.earlyStopping.restoreBest: found with strategy ParameterServer and "
            "without checkpoint.directory, expected one: only the leading process has the best "
            "parameters, and its successor reads them there");
  const auto clip = [](TrainingJob& job) { job.spec.training->optimizer.global_clip_norm = 1; };
  EXPECT_EQ(Faults(with({}).With(clip)), "");
  EXPECT_EQ(Faults(with(sync).With(clip)),
            "spec.training.optimizer.globalClipNorm: not supported yet with parameterServer.mode "
            "Sync, whose gradients no process has whole");
  const auto lamb = [](TrainingJob& job) { job.spec.training->optimizer.name = "LAMB"; };
  EXPECT_EQ(Faults(with({}).With(lamb)),
            "spec.training.optimizer.name: found LAMB with parameterServer.placement BySize, which "
            "may cut a tensor whose norms LAMB needs; expected RoundRobin");
  EXPECT_EQ(Faults(with({.placement = ParameterPlacement::kRoundRobin}).With(lamb)), "");
  const auto muon = [](TrainingJob& job) { job.spec.training->optimizer.name = "Muon"; };
  EXPECT_EQ(Faults(with({.placement = ParameterPlacement::kRoundRobin}).With(muon)),
            "spec.training.optimizer.name: Muon is not supported yet with strategy "
            "ParameterServer, whose servers do not know the shapes of tensors");
}

TEST(ValidateTest, EveryErrorIsReported) {
  TrainingSpec training = MnistTraining();
  training.batch_size = {};
  training.optimizer.name = "Lion";
  EXPECT_THAT(Validate(Job("Mnist").Workers(0).Training(training).BuildWithDefaults()),
              ElementsAre(Field(&FieldError::path, "metadata.name"),
                          Field(&FieldError::path, "spec.replicaSpecs"),
                          Field(&FieldError::path, "spec.training.batchSize"),
                          Field(&FieldError::path, "spec.training.optimizer.name")));
}

TEST(ValidateTest, TheTrainerSeesItsOwnPaths) {
  TrainingSpec training = MnistTraining();
  EXPECT_THAT(ValidateTraining(training, "training"), IsEmpty());
  training.epochs.reset();
  EXPECT_THAT(
      ValidateTraining(training, "training"),
      ElementsAre(FieldError{"training", "found neither epochs nor steps, expected exactly one"}));
}

}  // namespace
}  // namespace lockstep::api
