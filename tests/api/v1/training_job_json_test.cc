#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "api/v1/training_job.h"
#include "tests/support/builders.h"

namespace lockstep::api {
namespace {

using lockstep::testing::Job;
using lockstep::testing::MnistTraining;
using ::testing::HasSubstr;

Json MnistJson() {
  return TrainingJobToJson(Job("mnist").Workers(2).Training().Build());
}

// The faults of `json`, or "" if it reads.
std::string JsonFaults(const Json& json) {
  const auto job = TrainingJobFromJson(json);
  return job.ok() ? "" : std::string(job.status().message());
}

// MnistJson with the value at `pointer` replaced.
Json With(const char* pointer, const Json& value) {
  Json json = MnistJson();
  json[Json::json_pointer(pointer)] = value;
  return json;
}

TEST(TrainingJobJsonTest, ReadsWhatAUserWrites) {
  const auto job = TrainingJobFromJson(Json::parse(R"({
    "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob",
    "metadata": {"name": "mnist", "labels": {"team": "a"}},
    "spec": {
      "training": {"model": {"name": "core-cnn"}, "dataset": {"path": "/data/mnist"},
                   "batchSize": {"global": 128}, "epochs": 2,
                   "optimizer": {"name": "SGD", "learningRate": 1, "momentum": 0.9}},
      "replicaSpecs": {"Worker": {"replicas": 2, "restartPolicy": "ExitCode"}, "PS": {}}}})"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->metadata.name, "mnist");
  EXPECT_EQ(job->metadata.namespace_name, "default");
  EXPECT_EQ(job->metadata.labels.at("team"), "a");
  EXPECT_EQ(job->spec.training->batch_size.global, 128);
  EXPECT_EQ(job->spec.training->batch_size.per_replica, std::nullopt);
  EXPECT_EQ(job->spec.training->optimizer.learning_rate, 1.0);
  EXPECT_EQ(job->spec.replica_specs.at(Role::kWorker).replicas, 2);
  EXPECT_EQ(job->spec.replica_specs.at(Role::kWorker).restart_policy, RestartPolicy::kExitCode);
  EXPECT_EQ(job->spec.replica_specs.at(Role::kParameterServer).replicas, 1);
  EXPECT_FALSE(job->spec.replica_specs.contains(Role::kChief));
}

TEST(TrainingJobJsonTest, EachErrorNamesPathFoundAndExpected) {
  struct Case {
    const char* pointer;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {"/spec/training/epochs", "two",
       R"(spec.training.epochs: found "two", expected an integer of at least 1)"},
      {"/spec/training/epochs", 0,
       "spec.training.epochs: found 0, expected an integer of at least 1"},
      {"/spec/training/epochs", 1.0,
       "spec.training.epochs: found 1.0, expected an integer of at least 1"},
      {"/spec/training/epochs", 1e300,
       "spec.training.epochs: found 1e+300, expected an integer of at least 1"},
      {"/spec/training/epochs", 18'446'744'073'709'551'615U,
       "spec.training.epochs: found 18446744073709551615, expected an integer of at least 1"},
      {"/spec/training/epochs", Json::array({1}),
       "spec.training.epochs: found a list, expected an integer of at least 1"},
      {"/spec/training/seed", -1,
       "spec.training.seed: found -1, expected an integer of at least 0"},
      {"/spec/training/precision", "float32",
       R"(spec.training.precision: found "float32", expected one of Float32, TF32, BFloat16, Float16)"},
      {"/spec/training/optimizer/learningRate", 0,
       "spec.training.optimizer.learningRate: found 0, expected a number above 0"},
      {"/spec/training/optimizer/learningRate", "fast",
       R"(spec.training.optimizer.learningRate: found "fast", expected a number above 0)"},
      {"/spec/training/optimizer/beta1", 1,
       "spec.training.optimizer.beta1: found 1, expected a number of at least 0 and below 1"},
      {"/spec/training/dataset/shuffle", "yes",
       R"(spec.training.dataset.shuffle: found "yes", expected true or false)"},
      {"/spec/training/dataset/path", 3, "spec.training.dataset.path: found 3, expected a string"},
      {"/spec/training/model", "mlp", R"(spec.training.model: found "mlp", expected an object)"},
      {"/spec/training/model/layers", Json::array({{{"type", "Dense"}}, 7}),
       "spec.training.model.layers[1]: found 7, expected an object"},
      {"/spec/training/epoch", 2, R"(spec.training.epoch: unknown field; did you mean "epochs"?)"},
      {"/spec/replicaSpecs/worker", Json::object(),
       R"(spec.replicaSpecs.worker: unknown field; did you mean "Worker"?)"},
      {"/spec/replicaSpecs/Worker/replicas", 2'147'483'648,
       "spec.replicaSpecs.Worker.replicas: found 2147483648, expected an integer from 0 to 10000"},
      {"/spec/replicaSpecs/Worker/replicas", -1,
       "spec.replicaSpecs.Worker.replicas: found -1, expected an integer from 0 to 10000"},
      {"/spec/replicaSpecs/Worker/template", "x",
       R"(spec.replicaSpecs.Worker.template: found "x", expected an object)"},
      {"/spec/replicaSpecs", Json::array(), "spec.replicaSpecs: found a list, expected an object"},
      {"/spec/suspend", "false", R"(spec.suspend: found "false", expected true or false)"},
      {"/metadata/labels", Json{{"a", 1}}, "metadata.labels[a]: found 1, expected a string"},
      {"/apiVersion", "training.lockstep.dev/v2",
       R"(apiVersion: found "training.lockstep.dev/v2", expected "training.lockstep.dev/v1")"},
      {"/kind", "TFJob", R"(kind: found "TFJob", expected "TrainingJob")"},
      {"/status/startTime", "yesterday",
       R"(status.startTime: found "yesterday", expected a time such as "2026-05-01T12:00:00Z")"},
  };
  for (const Case& c : cases) EXPECT_EQ(JsonFaults(With(c.pointer, c.value)), c.message);
}

TEST(TrainingJobJsonTest, ListsAndTextsAreAsLongAsTheServerTakesThem) {
  std::vector<std::string> reasons;
  for (int i = 0; i < 33; ++i) reasons.push_back(std::to_string(i));
  std::string umlauts;
  for (int i = 0; i < 128; ++i) umlauts += "ä";
  struct Case {
    const char* list;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {"/roles", Json::array(), "roles: found 0 entries, expected 1 to 3"},
      {"/roles", Json{"PS", "Worker", "PS"},
       R"(roles[2]: found "PS" a second time, expected each once)"},
      {"/onExitCodes/values", Json{7, 7},
       "onExitCodes.values[1]: found 7 a second time, expected each once"},
      {"/onReasons", Json::array(), "onReasons: found 0 entries, expected 1 to 32"},
      {"/onReasons", reasons, "onReasons: found 33 entries, expected 1 to 32"},
      {"/onReasons", Json{umlauts + "x"}, "onReasons[0]: found 129 characters, expected 1 to 128"},
      {"/onReasons", Json{""}, "onReasons[0]: found 0 characters, expected 1 to 128"},
      {"/onReasons", Json{umlauts, "x"}, ""},
  };
  const Json rule = {{"action", "Ignore"}, {"onExitCodes", {{"values", {1}}}}};
  const std::string path = "spec.runPolicy.podFailurePolicy.rules";
  for (const Case& c : cases) {
    Json with = rule;
    with[Json::json_pointer(c.list)] = c.value;
    const Json job = With("/spec/runPolicy/podFailurePolicy/rules", Json::array({with}));
    const std::string message = c.message;
    EXPECT_EQ(JsonFaults(job), message.empty() ? "" : path + "[0]." + message);
    EXPECT_TRUE(TrainingJobFromServer(job).ok()) << "a newer server may take more: " << message;
  }
  EXPECT_EQ(JsonFaults(With("/spec/runPolicy/podFailurePolicy/rules", Json(21, rule))),
            path + ": found 21 entries, expected 1 to 20");
}

TEST(TrainingJobJsonTest, EveryErrorIsReportedOnItsOwnLine) {
  Json json = MnistJson();
  json["spec"]["training"]["epochs"] = "two";
  json["spec"]["suspend"] = 1;
  json["spec"]["replicaSpecs"]["Worker"]["replicas"] = 1.5;
  EXPECT_EQ(JsonFaults(json),
            "spec.suspend: found 1, expected true or false\n"
            "spec.training.epochs: found \"two\", expected an integer of at least 1\n"
            "spec.replicaSpecs.Worker.replicas: found 1.5, expected an integer from 0 to 10000");
}

TEST(TrainingJobJsonTest, WhatIsNotAJobIsRefused) {
  EXPECT_EQ(JsonFaults(Json(3)), "found 3, expected an object");
  EXPECT_EQ(JsonFaults(Json::array()), "found a list, expected an object");
  EXPECT_EQ(JsonFaults(Json::object()),
            "apiVersion: found nothing, expected \"training.lockstep.dev/v1\"\n"
            "kind: found nothing, expected \"TrainingJob\"");
}

TEST(TrainingJobJsonTest, LongWrongValuesAreCutShort) {
  const std::string faults = JsonFaults(With("/spec/suspend", std::string(10'000, 'x')));
  EXPECT_LT(faults.size(), 150U);
  EXPECT_THAT(faults, HasSubstr("xxx…, expected true or false"));
}

TEST(TrainingJobJsonTest, NullIsAbsent) {
  const auto job = TrainingJobFromJson(With("/spec/training/seed", nullptr));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.training->seed, 1);
}

TEST(TrainingJobJsonTest, AStrategyWithoutATypeHasThatOfTheRoles) {
  for (const bool has_servers : {false, true}) {
    for (const Json& strategy : {Json::object(), Json{{"type", nullptr}, {"processesPerPod", 2}}}) {
      Json json = With("/spec/strategy", strategy);
      if (has_servers) json["spec"]["replicaSpecs"]["PS"] = Json::object();
      const auto type =
          has_servers ? StrategyType::kParameterServer : StrategyType::kMultiWorkerMirrored;
      EXPECT_EQ(TrainingJobFromJson(json)->spec.strategy->type, type);
      EXPECT_EQ(TrainingJobFromServer(json)->spec.strategy->type, type);
      json["spec"]["strategy"]["type"] = "MultiWorkerMirrored";
      EXPECT_EQ(TrainingJobFromServer(json)->spec.strategy->type,
                StrategyType::kMultiWorkerMirrored);
    }
  }
}

TEST(TrainingJobJsonTest, FieldsThatServersAddAreIgnored) {
  Json json = MnistJson();
  json["metadata"]["managedFields"] = Json::array({1});
  json["metadata"]["ownerReferences"] = {{{"apiVersion", "v1"},
                                          {"kind", "X"},
                                          {"name", "x"},
                                          {"uid", "u"},
                                          {"blockOwnerDeletion", true}}};
  json["status"]["fieldOfTomorrow"] = 1;
  const auto job = TrainingJobFromJson(json);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->metadata.owner_references.at(0).uid, "u");
}

TEST(TrainingJobJsonTest, CopiesShareTheirTemplates) {
  const Json tmpl = {{"spec", {{"anything", 1}}}};
  TrainingJob job;
  job.spec.replica_specs[Role::kWorker].tmpl = tmpl;
  TrainingJob copy = job;
  EXPECT_EQ(&*copy.spec.replica_specs[Role::kWorker].tmpl,
            &*job.spec.replica_specs[Role::kWorker].tmpl);
  copy.spec.replica_specs[Role::kWorker].tmpl = Json(tmpl);
  EXPECT_EQ(copy, job);
  copy.spec.replica_specs[Role::kWorker].tmpl = Json::object();
  EXPECT_NE(copy, job);
  EXPECT_EQ(*job.spec.replica_specs[Role::kWorker].tmpl, tmpl);
}

TEST(TrainingJobJsonTest, TemplatesAreKeptAsWritten) {
  const Json tmpl = {{"spec", {{"anything", {1, nullptr, {{"x", "y"}}}}}}};
  const auto job = TrainingJobFromJson(With("/spec/replicaSpecs/Worker/template", tmpl));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(*job->spec.replica_specs.at(Role::kWorker).tmpl, tmpl);
}

TEST(TrainingJobJsonTest, SectionsForTheTrainerReadBack) {
  const TrainingSpec training = MnistTraining();
  EXPECT_EQ(TrainingSpecFromJson(TrainingSpecToJson(training)).value(), training);
  StrategySpec strategy;
  strategy.type = StrategyType::kMirrored;
  strategy.processes_per_pod = 4;
  strategy.stages = 2;
  strategy.sharding = Sharding::kZero1;
  EXPECT_EQ(StrategySpecFromJson(StrategySpecToJson(strategy)).value(), strategy);
  EXPECT_EQ(StrategySpecFromJson({{"type", "Mirorred"}}).status().message(),
            "strategy.type: found \"Mirorred\", expected one of Mirrored, MultiWorkerMirrored, "
            "ParameterServer, CentralStorage, Independent");
}

// An older trainer refuses fields that it does not know, so it must not see what nobody has set.
TEST(TrainingJobJsonTest, SectionsForTheTrainerHoldWhatIsNotTheDefaultAlone) {
  EXPECT_EQ(TrainingSpecToJson(TrainingSpec()), Json::object());
  EXPECT_EQ(StrategySpecToJson(StrategySpec()), Json::object());
  TrainingSpec training;
  training.model.name = "mlp";
  training.dataset.shuffle = false;
  training.dataset.prefetch = 0;
  training.dataset.synthetic = SyntheticSpec{.classes = 3};
  training.optimizer.momentum = 0.5;
  training.seed = 0;
  training.precision = Precision::kTF32;
  training.evaluation.enabled = false;
  const Json json = {
      {"model", {{"name", "mlp"}}},
      {"dataset", {{"shuffle", false}, {"prefetch", 0}, {"synthetic", {{"classes", 3}}}}},
      {"optimizer", {{"momentum", 0.5}}},
      {"seed", 0},
      {"precision", "TF32"},
      {"evaluation", {{"enabled", false}}}};
  EXPECT_EQ(TrainingSpecToJson(training), json);
  EXPECT_EQ(TrainingSpecFromJson(json).value(), training);
  EXPECT_EQ(TrainingJobToJson({.spec = {.training = TrainingSpec()}})
                .at("spec")
                .at("training")
                .at("seed"),
            1)
      << "a job shows its defaults";
}

TEST(TrainingJobJsonTest, AValueThatJsonCannotHoldIsLeftOut) {
  TrainingJob job;
  Progress& reported = job.status.progress.emplace();
  reported.loss = std::numeric_limits<double>::quiet_NaN();
  reported.examples_per_second = std::numeric_limits<double>::infinity();
  const Json progress = TrainingJobToJson(job)["status"]["progress"];
  EXPECT_FALSE(progress.contains("loss"));
  EXPECT_FALSE(progress.contains("examplesPerSecond"));
}

// The API server takes a condition without a message from others, and no status without the member.
TEST(TrainingJobJsonTest, AConditionHasAllMembersThatTheServerRequires) {
  TrainingJob job;
  job.status.conditions.push_back({"Created", ConditionStatus::kTrue, 1, Time{}, "Reason", ""});
  const Json condition = TrainingJobToJson(job).at("status").at("conditions").at(0);
  for (const char* member : {"type", "status", "lastTransitionTime", "reason", "message"}) {
    EXPECT_TRUE(condition.contains(member)) << member;
  }
}

TEST(TrainingJobJsonTest, RoleNamesAndKeysReadBack) {
  for (const Role role : {Role::kChief, Role::kWorker, Role::kParameterServer, Role::kEvaluator}) {
    EXPECT_EQ(RoleFromKey(RoleKey(role)), role);
    EXPECT_EQ(RoleFromName(RoleName(role)), role);
  }
  EXPECT_EQ(RoleName(Role::kParameterServer), "ps");
  EXPECT_EQ(RoleKey(Role::kParameterServer), "PS");
  EXPECT_EQ(RoleFromKey("worker"), std::nullopt);
  EXPECT_EQ(RoleFromName("Worker"), std::nullopt);
}

// Draws jobs whose every field may be set, so that a field that is written but not read, or read
// under another name, cannot hide.
class JobSource {
 public:
  explicit JobSource(unsigned seed) : random_(seed) {}

  TrainingJob Next() {
    TrainingJob job = Job("job" + Text()).Build();
    Draw(job.metadata);
    Draw(job.spec);
    Draw(job.status);
    return job;
  }

 private:
  bool Flip() { return random_() % 2 == 0; }
  std::int64_t Number(std::int64_t min, std::int64_t max) {
    return std::uniform_int_distribution<std::int64_t>(min, max)(random_);
  }
  int Small() { return static_cast<int>(Number(1, 100)); }
  double Real() { return std::uniform_real_distribution<double>(1e-9, 0.999)(random_); }
  std::string Text() { return "t" + std::to_string(Number(0, 1'000'000)); }
  Time Instant() { return Time{std::chrono::nanoseconds{Number(0, 4'000'000'000'000'000'000)}}; }
  template <class E>
  E Pick(std::initializer_list<E> values) {
    return values.begin()[random_() % values.size()];
  }

  void Draw(ObjectMeta& meta) {
    meta.uid = Text();
    meta.resource_version = Text();
    meta.generation = Small();
    if (Flip()) meta.labels["a/b"] = Text();
    if (Flip()) meta.annotations["c"] = "";
    if (Flip()) meta.owner_references.push_back({Text(), Text(), Text(), Text(), Flip()});
    if (Flip()) meta.creation_time = Instant();
    if (Flip()) meta.deletion_time = Instant();
  }

  void Draw(TrainingSpec& training) {
    training.model.name = Flip() ? Text() : "";
    training.model.zero_gamma = Flip();
    if (Flip()) {
      training.model.layers = Json::array({{{"type", Text()}, {"units", Small()}}, Json::object()});
    }
    Draw(training.dataset);
    if (Flip()) training.batch_size.global = Small();
    if (Flip()) training.batch_size.per_replica = Small();
    if (Flip()) training.epochs = Small();
    if (Flip()) training.steps = Small();
    training.seed = Number(0, 9'007'199'254'740'991);
    training.initial_weights = {Flip() ? Text() : "", {Text()}};
    Draw(training.optimizer);
    training.learning_rate_schedule = {Pick({ScheduleType::kConstant, ScheduleType::kCosine}),
                                       Small(), Real()};
    training.learning_rate_schedule.factor = Real();
    if (Flip()) training.learning_rate_schedule.every_steps = Small();
    training.learning_rate_schedule.power = Real();
    training.precision =
        Pick({Precision::kFloat32, Precision::kTF32, Precision::kBFloat16, Precision::kFloat16});
    training.checkpoint = {Flip() ? Text() : "", Small(), Small()};
    if (Flip()) training.checkpoint.export_to = Text();
    training.summaries = {Flip() ? Text() : "", Small()};
    training.evaluation = {Flip(), Small(), {TestMetric::kRecall, TestMetric::kAuc}, 1 + Small()};
    training.rendezvous_timeout_seconds = Small();
    DrawSteps(training);
    if (Flip()) training.variants = Json::array({Json{{"name", Text()}, {"seed", Small()}}});
  }

  // What a step does, and which one is the last or the best.
  void DrawSteps(TrainingSpec& training) {
    training.gradient_accumulation = Small();
    training.loss.type = Pick({LossType::kHuber, LossType::kBinaryCrossentropy});
    if (Flip()) training.loss.from_logits = Flip();
    training.loss.delta = Real();
    training.label_smoothing = Real();
    if (Flip()) training.ema = EmaSpec{Real()};
    training.max_skipped_steps = Small();
    training.activation_checkpointing =
        Pick({ActivationCheckpointing::kNone, ActivationCheckpointing::kSelective});
    if (Flip()) training.checkpoint.keep_best = Pick({BestMetric::kLoss, BestMetric::kAuc});
    if (Flip()) {
      training.early_stopping = EarlyStoppingSpec{Pick({BestMetric::kLoss, BestMetric::kAuc}),
                                                  Small(), Real(), Small(), Flip()};
    }
  }

  void Draw(DatasetSpec& dataset) {
    dataset = {Pick({DatasetFormat::kIdx, DatasetFormat::kSynthetic}),
               Text(),
               Flip(),
               Pick({AutoShard::kAuto, AutoShard::kFile}),
               Flip(),
               Flip() ? Text() : "",
               Small(),
               std::nullopt};
    if (Flip()) dataset.npy = NpySpec{Flip()};
    if (Flip()) {
      dataset.tfrecord = TfRecordSpec{Text(), Text(), Text(), Text(), {4, 5}, 6};
    }
    if (Flip()) dataset.csv = CsvSpec{Text()};
    if (Flip()) dataset.image_size = {8, 9};
    dataset.threads = Small();
    if (Flip()) {
      dataset.augment =
          AugmentSpec{Pick({RandomFlip::kNone, RandomFlip::kHorizontal}), RandomCropSpec{Small()},
                      CutoutSpec{Small()}, MixUpSpec{Real()}};
    }
    if (Flip()) dataset.normalize = NormalizeSpec{{Real(), Real()}, {Real(), Real()}};
    dataset.image_channels = Pick({1, 3});
    dataset.interpolation = Pick({Interpolation::kBilinear, Interpolation::kArea});
    if (Flip()) dataset.validation_fraction = 0.25;
    if (Flip()) dataset.synthetic = SyntheticSpec{Small(), Small(), {1, 2, 3}, 7};
  }

  void Draw(OptimizerSpec& optimizer) {
    optimizer = {Text(), Real(), Real(), Flip(), Real(), Real(), Real(), Real()};
    optimizer.muon_momentum = Real();
    optimizer.muon_nesterov = Flip();
    optimizer.initial_accumulator_value = Real();
    optimizer.trust_coefficient = Real();
    optimizer.adam_lr_ratio = Real();
    optimizer.exclude_layers = {Text()};
    optimizer.weight_decay = Real();
    optimizer.weight_decay_exclude = {Text(), Text()};
    optimizer.global_clip_norm = Real();
  }

  void Draw(TrainingJobSpec& spec) {
    spec.suspend = Flip();
    spec.managed_by = Flip() ? Text() : "";
    if (Flip()) {
      spec.strategy = StrategySpec{
          Pick({StrategyType::kMirrored, StrategyType::kParameterServer}),
          Flip() ? std::optional(Small()) : std::nullopt,
          static_cast<int>(Number(1, 64)),
          Pick({Sharding::kNone, Sharding::kZero1}),
          Pick({Communication::kAuto, Communication::kRing, Communication::kNccl}),
          ParameterServerSpec{Pick({ParameterServerMode::kAsync, ParameterServerMode::kSync}),
                              Small(), Small(),
                              Pick({ParameterPlacement::kBySize, ParameterPlacement::kRoundRobin})},
          CentralStorageSpec{Pick({ControllerDevice::kCpu, ControllerDevice::kGpu})}};
    }
    if (Flip()) Draw(spec.training.emplace());
    for (const Role role : {Role::kChief, Role::kWorker, Role::kParameterServer}) {
      if (Flip()) continue;
      spec.replica_specs[role] = {Small(), std::nullopt, Json{{"spec", {{"x", Text()}}}}};
      if (Flip()) {
        spec.replica_specs[role].restart_policy =
            Pick({RestartPolicy::kAlways, RestartPolicy::kOnFailure, RestartPolicy::kExitCode});
      }
    }
    if (Flip()) {
      spec.replica_specs[Role::kWorker].depends_on = {
          {Role::kParameterServer, Pick({DependencyStatus::kReady, DependencyStatus::kComplete})},
          {Role::kChief, DependencyStatus::kReady}};
    }
    if (Flip()) spec.elastic = ElasticSpec{Small(), Small()};
    if (Flip()) spec.restart_scope = Pick({RestartScope::kInPlace, RestartScope::kPod});
    if (Flip()) spec.success_policy = SuccessPolicy::kAllWorkers;
    if (Flip()) spec.network_policy = Pick({NetworkPolicy::kIsolated, NetworkPolicy::kNone});
    if (Flip()) spec.job_token = Pick({TokenMount::kMounted, TokenMount::kNone});
    spec.run_policy.clean_pod_policy = Pick({CleanPodPolicy::kAll, CleanPodPolicy::kNone});
    if (Flip()) spec.run_policy.ttl_seconds_after_finished = Small();
    if (Flip()) spec.run_policy.active_deadline_seconds = Small();
    if (Flip()) spec.run_policy.pending_deadline_seconds = Small();
    if (Flip()) spec.run_policy.progress_deadline_seconds = 9 + Small();
    spec.run_policy.backoff_limit = Small();
    if (Flip())
      spec.run_policy.scheduling_policy =
          SchedulingPolicySpec{Small(), Text(), Text(), Json{{"cpu", "2"}}, Small()};
    if (Flip()) spec.run_policy.scheduling_policy = SchedulingPolicySpec{};
    if (Flip()) Draw(spec.run_policy.pod_failure_policy.emplace());
  }

  void Draw(PodFailurePolicySpec& policy) {
    policy.rules.resize(2);
    PodFailureRuleSpec& rule = policy.rules.front();
    rule.action = Pick({FailureAction::kFailJob, FailureAction::kIgnore});
    if (Flip()) rule.roles = {Role::kWorker, Role::kParameterServer};
    if (Flip()) {
      rule.on_exit_codes =
          ExitCodesSpec{Pick({ExitCodeOperator::kIn, ExitCodeOperator::kNotIn}), {1, 255}};
    }
    if (Flip()) rule.on_reasons = {Text(), "OOMKilled"};
    policy.rules.back() = {FailureAction::kCount, {}, std::nullopt, {"Evicted"}};
  }

  void Draw(VariantResult& result) {
    result.index = Small();
    result.name = Text();
    result.diverged = Flip();
    result.step = Small();
    if (Flip()) result.loss = Real();
    if (Flip()) result.accuracy = Real();
    if (Flip()) result.test_loss = Real();
    if (Flip()) result.test_accuracy = Real();
    if (Flip()) result.mean_absolute_error = Real();
    if (Flip()) result.test_mean_absolute_error = Real();
    if (Flip()) result.test_metrics = {{TestMetric::kRecall, Real()}};
  }

  void Draw(TrainingJobStatus& status) {
    status.state = Text();
    if (Flip()) status.counted_pods = {Text(), Text()};
    if (Flip()) Draw(status.variants.emplace_back());
    if (Flip()) {
      status.conditions.push_back({"Running",
                                   Pick({ConditionStatus::kTrue, ConditionStatus::kUnknown}),
                                   Small(), Instant(), Text(), Text()});
    }
    status.observed_generation = Small();
    if (Flip()) status.start_time = Instant();
    if (Flip()) status.completion_time = Instant();
    if (Flip()) status.next_retry_time = Instant();
    status.attempt = Small();
    status.completed_indexes = {Small(), Small()};
    if (Flip()) status.completed_helpers = {Small(), Small()};
    if (Flip()) status.started_roles = {Role::kWorker, Role::kEvaluator};
    if (Flip()) status.running_roles = {Role::kParameterServer};
    if (Flip()) status.group_workers = 1 + Small();
    status.selector = Text();
    status.ready_replicas = "3/4";
    status.restart_count = Small();
    if (Flip()) status.replica_statuses[Role::kWorker] = {Small(), 2, 3, 4, 5};
    status.restarts = {Small(), Small(), 0, Small()};
    if (Flip()) {
      status.progress =
          Progress{Small(),  Small(),
                   Real(),   Real(),
                   Real(),   Real(),
                   Real(),   Real(),
                   Real(),   {{TestMetric::kAuc, Real()}, {TestMetric::kRecall, Real()}},
                   Real(),   Real(),
                   Real(),   Small(),
                   Small(),  Small(),
                   Instant()};
    }
    if (Flip()) status.failure = Failure{Text(), Small(), Text(), Small(), Text(), Text()};
  }

  std::mt19937 random_;
};

TEST(TrainingJobJsonTest, EveryJobReadsBackAsItself) {
  JobSource source(7);
  for (int i = 0; i < 500; ++i) {
    const TrainingJob job = source.Next();
    const Json json = TrainingJobToJson(job);
    const auto read = TrainingJobFromJson(Json::parse(json.dump()));
    ASSERT_TRUE(read.ok()) << read.status() << "\n" << json.dump(2);
    ASSERT_EQ(*read, job) << json.dump(2);
  }
}

}  // namespace
}  // namespace lockstep::api
