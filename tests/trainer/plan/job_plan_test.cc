// tests/local_run/plan_test.py compares plans with whole runs.
#include "trainer/plan/job_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "trainer/data/loader.h"
#include "trainer/plan/plan_json.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

// A job of `workers` pods, as the first of them sees it.
PlanOptions JobOf(int workers, std::int64_t batch) {
  PlanOptions options{.available = std::uint64_t{1} << 60};
  api::TrainingSpec& training = options.identity.training;
  training.model.name = "core-cnn";
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.dataset.synthetic = api::SyntheticSpec{.train_examples = 70, .test_examples = 33};
  training.batch_size.global = batch;
  training.epochs = 3;
  for (int i = 0; i < workers; ++i) {
    options.identity.cluster.worker.push_back("127.0.0." + std::to_string(i + 1) + ":2222");
  }
  return options;
}

JobPlan Plan(const PlanOptions& options) {
  // A process's first session makes it larger than later ones do.
  [[maybe_unused]] static const bool is_warm = PlanJob(JobOf(1, 8)).ok();
  absl::StatusOr<JobPlan> plan = PlanJob(options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::unique_ptr<Session> RealSession(const PlanOptions& options) {
  return *Session::Create({.training = options.identity.training,
                           .world = options.identity.BatchParts(),
                           .threads = options.threads});
}

TEST(JobPlanTest, StepsAndPaddingAreThoseOfTheLoaders) {
  for (const std::int64_t batch : {16, 17, 70, 100}) {
    SCOPED_TRACE(batch);
    const PlanOptions options = JobOf(3, batch);
    const PlannedSteps steps = Plan(options).steps;
    const auto session = RealSession(options);
    EXPECT_EQ(steps.total, session->total_steps());
    std::int64_t rows = 0, samples = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const auto loader = Loader::Create(session->train_data(),
                                         {.plan = session->plan(), .rank = rank, .prefetch = 0});
      loader->Seek(0);
      for (std::int64_t step = 0; step < *steps.epoch; ++step) {
        const Batch& read = **loader->Next();
        rows += std::ssize(read.labels);
        samples += read.valid;
      }
    }
    EXPECT_EQ(steps.padded, rows - samples);
    EXPECT_EQ(steps.dropped, 70 - samples);
  }
}

TEST(JobPlanTest, EachStageHasItsOwnLayersAndMemory) {
  PlanOptions options = JobOf(4, 64);
  options.identity.training.gradient_accumulation = 4;
  options.identity.training.checkpoint.directory = "/checkpoints";
  const JobPlan whole = Plan(options);
  EXPECT_TRUE(whole.stages.empty());
  options.identity.strategy.stages = 2;
  const JobPlan plan = Plan(options);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.ops.size(), whole.ops.size());
  EXPECT_EQ(plan.stages[0].ops.size() + plan.stages[1].ops.size(), whole.ops.size());
  EXPECT_EQ(plan.checkpoint, whole.checkpoint);
  EXPECT_EQ(plan.steps.plan.world, 2);
  EXPECT_GT(plan.stages[0].sent, 0u);
  EXPECT_EQ(plan.stages[1].sent, 0u);
  std::size_t parameters = 0;
  for (const int stage : {0, 1}) {
    const auto session = *Session::Create({.training = options.identity.training,
                                           .world = 2,
                                           .threads = options.threads,
                                           .stage = {stage, 2}});
    parameters += session->Memory().model.parameters;
    EXPECT_GT(plan.stages[static_cast<std::size_t>(stage)].bytes, session->Memory().total());
  }
  EXPECT_EQ(parameters, RealSession(options)->Memory().model.parameters);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep what is freed
  // Both pipelines, of which the second one saves nothing.
  EXPECT_LT(plan.memory.job,
            2 * (plan.stages[0].bytes + plan.stages[1].bytes) + 4 * (std::size_t{16} << 20));
#endif
}

TEST(JobPlanTest, MoreStagesThanTheModelHasAreRefusedByName) {
  PlanOptions options = JobOf(64, 64);
  options.identity.strategy.stages = 64;
  const auto plan = PlanJob(options);
  EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
  EXPECT_THAT(std::string(plan.status().message()),
              HasSubstr("stages: found 64, expected at most"));
}

TEST(JobPlanTest, MemoryIsThatOfARealSession) {
  const PlanOptions options = JobOf(2, 64);
  const JobPlan plan = Plan(options);
  const auto session = RealSession(options);
  const SessionMemory real = session->Memory();
  const ReplicaMemory& memory = plan.memory.replica;
  EXPECT_EQ(memory.parameters, real.model.parameters + real.model.states);
  EXPECT_EQ(memory.activations, real.model.activations);
  EXPECT_EQ(memory.scratch, real.model.scratch);
  EXPECT_EQ(memory.gradients, real.sums);
  EXPECT_EQ(memory.optimizer, real.slots);
  EXPECT_EQ(memory.step, real.step);
  EXPECT_EQ(memory.checkpoint, 0u) << "the job saves none";
  EXPECT_GT(memory.process, std::size_t{10} << 20);
  EXPECT_EQ(plan.memory.job, 2 * plan.memory.pods.at(0).bytes);
  std::size_t bytes = 0;
  for (const NamedTensor& tensor : MakeSnapshot(*session, {.step = 0}, Time()).model) {
    bytes += tensor.data.size() * sizeof(float);
  }
  EXPECT_EQ(plan.checkpoint, 3 * bytes) << "the model, and two slots of Adam";
}

TEST(JobPlanTest, TheBestModelIsKeptByEachReplicaAndSavedBesideTheOther) {
  PlanOptions options = JobOf(2, 600);
  options.identity.training.checkpoint.directory = "/checkpoints";
  options.identity.training.checkpoint.every_steps = 0;
  options.identity.training.early_stopping = api::EarlyStoppingSpec{.patience = 3};
  const JobPlan last = Plan(options);
  const std::size_t model = ModelBytes(*RealSession(options));
  EXPECT_EQ(PlanToJson(last)["early_stopping"]["patience"], 3);
  EXPECT_EQ(PlanToJson(last)["early_stopping"]["restore_best"], false);
  options.identity.training.early_stopping->restore_best = true;
  const JobPlan best = Plan(options);
  EXPECT_EQ(PlanToJson(best)["early_stopping"]["restore_best"], true);
  EXPECT_EQ(best.checkpoint, last.checkpoint + model);
  EXPECT_EQ(best.memory.replica.best, model);
  EXPECT_EQ(best.memory.replica.checkpoint, last.memory.replica.checkpoint + model);
  EXPECT_EQ(best.memory.job, 2 * best.memory.pods.at(0).bytes - best.memory.replica.checkpoint)
      << "the other replica keeps it, too";
}

TEST(JobPlanTest, OfVariantsThatKeepTheirBestModelMoreMemoryIsCounted) {
  PlanOptions options = JobOf(1, 600);
  options.identity.processes_per_pod = 2;
  options.identity.strategy.type = api::StrategyType::kIndependent;
  options.identity.training.variants =
      api::Json::array({api::Json::object(), {{"earlyStopping", {{"restoreBest", true}}}}});
  const JobPlan plan = Plan(options);
  EXPECT_EQ(plan.variant, 1);
  EXPECT_TRUE(plan.training.early_stopping.has_value());
  EXPECT_EQ(plan.measured, 2);
}

TEST(JobPlanTest, WhatLiesInAGpusMemoryIsNoMemoryOfThePod) {
  PlanOptions options = JobOf(1, 600);
  options.identity.processes_per_pod = 2;
  options.identity.training.checkpoint.directory = "/checkpoints";
  const JobPlan on_cpu = Plan(options);
  options.identity.gpus = 2;
  const JobPlan on_gpu = Plan(options);
  EXPECT_EQ(on_gpu.device, "cuda");
  const ReplicaMemory& memory = on_gpu.memory.replica;
  EXPECT_EQ(memory.parameters + memory.optimizer + memory.activations + memory.scratch, 0u);
  EXPECT_EQ(memory.gradients, on_cpu.memory.replica.gradients) << "they may pass through the host";
  EXPECT_EQ(memory.batches, on_cpu.memory.replica.batches);
  EXPECT_GE(memory.checkpoint, on_gpu.checkpoint);
  EXPECT_TRUE(on_cpu.messages.is_memory_shared);
  EXPECT_FALSE(on_gpu.messages.is_memory_shared) << "of the hosts, where the gradients are not";
  // A limit that the GPU's part does not fit into.
  options.pod_limits[api::Role::kWorker] = on_cpu.memory.pods.at(0).bytes - 1;
  EXPECT_EQ(Plan(options).refusal, "");
  options.identity.gpus = 0;
  EXPECT_NE(Plan(options).refusal, "");
}

TEST(JobPlanTest, WithCentralStorageEachGpuGetsTheParametersOfTheFirst) {
  PlanOptions options = JobOf(1, 64);
  options.identity.strategy.type = api::StrategyType::kCentralStorage;
  options.identity.processes_per_pod = 2;
  EXPECT_EQ(Plan(options).messages.broadcast, 0u);
  options.identity.gpus = 2;
  EXPECT_GT(Plan(options).messages.broadcast, 0u);
}

TEST(JobPlanTest, OnlyTheReplicaThatSavesKeepsCheckpoints) {
  PlanOptions options = JobOf(3, 600);  // the memory of a step exceeds that of a restore
  options.identity.training.checkpoint.directory = "/checkpoints";
  options.identity.training.checkpoint.every_steps = 0;
  options.identity.processes_per_pod = 2;
  const PlannedMemory once = Plan(options).memory;
  EXPECT_EQ(once.replica.checkpoint, Plan(options).checkpoint);
  EXPECT_EQ(once.job, 3 * once.pods.at(0).bytes - 2 * once.replica.checkpoint);
  options.identity.training.checkpoint.every_steps = 1;
  EXPECT_EQ(Plan(options).memory.replica.checkpoint, 2 * once.replica.checkpoint)
      << "the next one is made while one is written";
}

TEST(JobPlanTest, AnExportAtTheEndHasRoom) {
  PlanOptions options = JobOf(1, 600);
  const std::size_t model = ModelBytes(*RealSession(options));
  EXPECT_EQ(Plan(options).memory.replica.checkpoint, 0u);
  options.identity.training.checkpoint.export_to = "/out/model.safetensors";
  EXPECT_EQ(Plan(options).memory.replica.checkpoint, model);
  options.identity.training.checkpoint.export_to = "/out/model.onnx";
  EXPECT_EQ(Plan(options).memory.replica.checkpoint, 3 * model)
      << "the tensors, the graph that holds them, and the file's bytes";
}

// A run that goes on from a checkpoint reads it into memory of its own, but before its first step.
TEST(JobPlanTest, ACheckpointThatIsReadAtTheStartHasRoom) {
  PlanOptions options = JobOf(1, 1);
  options.identity.training.checkpoint.directory = "/checkpoints";
  options.identity.training.checkpoint.every_steps = 0;
  const JobPlan plan = Plan(options);
  const ReplicaMemory& memory = plan.memory.replica;
  const std::size_t model = ModelBytes(*RealSession(options));
  const std::size_t of_step =
      memory.batches + memory.activations + memory.scratch + memory.staging + memory.step;
  ASSERT_LT(of_step, 2 * model);
  EXPECT_EQ(memory.checkpoint + of_step, 5 * model)
      << "the model's tensors, and Adam's two with the file that they come from";
}

TEST(JobPlanTest, AnAverageNeedsTheMemoryOfTheParameters) {
  PlanOptions options = JobOf(1, 600);
  options.identity.training.checkpoint.directory = "/checkpoints";
  const JobPlan without = Plan(options);
  options.identity.training.ema = api::EmaSpec{.decay = 0.5};
  const JobPlan with = Plan(options);
  const std::size_t model = ModelBytes(*RealSession(options));
  EXPECT_EQ(with.checkpoint, without.checkpoint + model);
  EXPECT_GE(with.memory.replica.optimizer, without.memory.replica.optimizer + model);
  EXPECT_EQ(with.memory.replica.parameters, without.memory.replica.parameters);
}

TEST(JobPlanTest, AShardedStateIsDividedAmongTheReplicas) {
  PlanOptions options = JobOf(1, 64);
  options.identity.processes_per_pod = 4;
  options.identity.training.optimizer.name = "Adam";
  const JobPlan whole = Plan(options);
  EXPECT_EQ(whole.messages.exchanged, 0u);
  options.identity.strategy.sharding = api::Sharding::kZero1;
  const JobPlan sharded = Plan(options);
  EXPECT_EQ(sharded.messages.exchanged, 0u) << "they share memory";
  const std::size_t state = whole.memory.replica.optimizer;
  EXPECT_NEAR(static_cast<double>(sharded.memory.replica.optimizer), static_cast<double>(state) / 4,
              512);
  // The processes themselves do not take the same memory each time.
  const auto without_processes = [](const JobPlan& plan) {
    return static_cast<double>(plan.memory.job) -
           4.0 * static_cast<double>(plan.memory.replica.process);
  };
  EXPECT_NEAR(without_processes(whole) - without_processes(sharded), 3 * static_cast<double>(state),
              static_cast<double>(state) / 8);
  EXPECT_EQ(sharded.checkpoint, whole.checkpoint);
  options.identity.strategy.communication = api::Communication::kRing;
  const std::size_t parameters = RealSession(options)->model().parameters().size_bytes();
  EXPECT_EQ(Plan(options).messages.exchanged, parameters / 4 * 3);
}

// The share of rank 1 is a tensor that is larger than all of rank 0's.
PlanOptions WithALargeTensor(const std::string& optimizer) {
  PlanOptions options = JobOf(1, 64);
  options.identity.processes_per_pod = 2;
  options.identity.training.model.name = "";
  options.identity.training.model.layers = api::Json::array({{{"type", "Flatten"}},
                                                             {{"type", "Dense"}, {"units", 1000}},
                                                             {{"type", "Dense"}, {"units", 3000}},
                                                             {{"type", "Dense"}, {"units", 10}}});
  options.identity.training.optimizer.name = optimizer;
  return options;
}

TEST(JobPlanTest, WithWholeTensorsEachOtherReplicaCountsWithTheLargestShare) {
  PlanOptions options = WithALargeTensor("LAMB");
  const JobPlan whole = Plan(options);
  const auto state = static_cast<double>(whole.memory.replica.optimizer);
  options.identity.strategy.sharding = api::Sharding::kZero1;
  const JobPlan sharded = Plan(options);
  EXPECT_LT(static_cast<double>(sharded.memory.replica.optimizer), state / 4);
  EXPECT_NEAR(static_cast<double>(whole.memory.job - sharded.memory.job), state, state / 8);
}

TEST(JobPlanTest, TheLargestMatrixOfAShareCountsWhereItIs) {
  PlanOptions lamb = WithALargeTensor("LAMB"), muon = WithALargeTensor("Muon");
  const auto optimizer = [](const JobPlan& plan) {
    return static_cast<double>(plan.memory.replica.optimizer);
  };
  const double slots = optimizer(Plan(lamb)), scratch = optimizer(Plan(muon)) - slots;
  const JobPlan whole = Plan(muon);
  lamb.identity.strategy.sharding = muon.identity.strategy.sharding = api::Sharding::kZero1;
  const JobPlan sharded = Plan(muon);
  const double scratch_of_rank_0 = optimizer(sharded) - optimizer(Plan(lamb));
  EXPECT_LT(scratch_of_rank_0, scratch / 2);
  EXPECT_NEAR(static_cast<double>(whole.memory.job - sharded.memory.job),
              slots + scratch - scratch_of_rank_0, slots / 8);
}

PlanOptions CentralStorageOf(int processes) {
  PlanOptions options = JobOf(1, 6);
  options.identity.processes_per_pod = processes;
  options.identity.strategy.type = api::StrategyType::kCentralStorage;
  options.identity.training.optimizer.name = "Adam";
  return options;
}

TEST(JobPlanTest, WithCentralStorageParametersAreSentUnlessMemoryIsShared) {
  PlanOptions options = CentralStorageOf(3);
  EXPECT_TRUE(Plan(options).messages.is_memory_shared);
  EXPECT_EQ(Plan(options).messages.broadcast, 0u);
  options.identity.strategy.communication = api::Communication::kRing;
  EXPECT_FALSE(Plan(options).messages.is_memory_shared);
  EXPECT_EQ(Plan(options).messages.broadcast,
            RealSession(options)->model().parameters().size_bytes());
  options.identity.strategy.type = api::StrategyType::kMirrored;
  EXPECT_EQ(Plan(options).messages.broadcast, 0u) << "each updates its own";
  EXPECT_FALSE(Plan(JobOf(2, 64)).messages.is_memory_shared) << "pods may be on different hosts";
}

TEST(JobPlanTest, BucketsAreThoseOfTheStrategy) {
  for (const int ranks : {4, 128}) {  // buckets grow with the ring
    const PlanOptions options = JobOf(ranks, 128);
    const PlannedMessages messages = Plan(options).messages;
    const auto session = RealSession(options);
    std::vector<std::size_t> expected;
    for (const auto& bucket :
         BucketsOf(session->buffer(), {.layer_starts = session->LayerStarts()}, ranks)) {
      expected.push_back(static_cast<std::size_t>(bucket.end - bucket.begin) * sizeof(float));
    }
    EXPECT_EQ(expected.size(), ranks == 4 ? 2u : 1u);
    EXPECT_EQ(messages.buckets, expected) << ranks;
    const auto all = std::accumulate(expected.begin(), expected.end(), std::size_t{0});
    EXPECT_EQ(all, session->buffer().size() * sizeof(float));
    EXPECT_NEAR(static_cast<double>(messages.sent),
                2.0 * (ranks - 1) / ranks * static_cast<double>(all), ranks);
  }
  EXPECT_TRUE(Plan(JobOf(1, 64)).messages.buckets.empty());
}

TEST(JobPlanTest, ServersShareTheModel) {
  PlanOptions options = JobOf(2, 64);
  options.identity.strategy.type = api::StrategyType::kParameterServer;
  options.identity.cluster.ps = {"127.0.1.1:2222", "127.0.1.2:2222"};
  const JobPlan plan = Plan(options);
  const auto session = RealSession(options);
  const std::size_t parameters = session->model().parameters().size_bytes();
  ASSERT_EQ(plan.messages.servers.size(), 2u);
  std::size_t moved = 0, held = 0;
  for (const PlannedServer& server : plan.messages.servers) {
    EXPECT_GT(server.moved, 0u);
    moved += server.moved;
    held += server.held;
  }
  EXPECT_EQ(moved, parameters + session->model().states().size_bytes());
  EXPECT_EQ(held, moved + 2 * parameters) << "with the two slots of Adam";
  EXPECT_EQ(plan.memory.replica.servers, moved);
  EXPECT_EQ(plan.steps.plan.LocalBatch(), 64) << "asynchronous: each worker has batches of its own";
}

TEST(JobPlanTest, AServerNeedsRoomForWhatArrives) {
  PlanOptions options = JobOf(3, 66);
  options.identity.strategy.type = api::StrategyType::kParameterServer;
  options.identity.cluster.ps = {"127.0.1.1:2222"};
  const auto server = [&] { return Plan(options).messages.servers.at(0); };
  EXPECT_EQ(server().needed, 2 * server().held) << "what is loaded, and what it becomes";
  options.pod_limits[api::Role::kParameterServer] = std::uint64_t{1} << 60;
  EXPECT_EQ(server().needed, server().held + 6 * server().moved)
      << "on a cluster, a gradient and the values of each worker";
  options.identity.strategy.parameter_server =
      api::ParameterServerSpec{.mode = api::ParameterServerMode::kSync};
  EXPECT_EQ(server().needed, server().held + 9 * server().moved)
      << "a step's sum, and two gradients that wait for their turn";
}

// Compares plans for which the memory of this process was measured, one after the other.
class ComparedPlansTest : public ::testing::Test {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  void SetUp() override {
    GTEST_SKIP()
        << "a sanitizer keeps what is freed, so each plan measures more than the one before";
  }
#endif
};

TEST_F(ComparedPlansTest, WithoutALimitAllPodsMustFitIntoTheMachine) {
  PlanOptions options = JobOf(2, 2000);
  options.available = Plan(options).memory.job - (std::size_t{20} << 20);
  const JobPlan refused = Plan(options);
  EXPECT_THAT(refused.refusal, HasSubstr("all pods need"));
  ASSERT_TRUE(refused.largest.has_value());
  EXPECT_LT(refused.largest->per_replica, 1000);
  EXPECT_GT(refused.largest->per_replica, 900);
  EXPECT_EQ(refused.largest->global, 2 * refused.largest->per_replica);
  options.pod_limits[api::Role::kWorker] = std::uint64_t{1} << 60;
  EXPECT_EQ(Plan(options).refusal, "") << "on a cluster, the limit decides";
}

std::size_t PodOf(const JobPlan& plan, api::Role role) {
  for (const PlannedPods& pods : plan.memory.pods) {
    if (pods.role == role) return pods.bytes;
  }
  ADD_FAILURE() << "no pods of " << api::RoleKey(role);
  return 0;
}

constexpr std::size_t kSlack = std::size_t{8} << 20;  // a program's own memory varies

TEST_F(ComparedPlansTest, EachRolesPodsAreComparedWithTheirOwnLimit) {
  PlanOptions options = JobOf(1, 600);
  options.identity.cluster.chief = {"127.0.0.9:2222"};
  options.identity.role = api::Role::kChief;
  options.identity.training.checkpoint.directory = "/checkpoints";
  const JobPlan plan = Plan(options);
  const std::size_t chief = PodOf(plan, api::Role::kChief);
  const std::size_t worker = PodOf(plan, api::Role::kWorker);
  EXPECT_EQ(chief, worker + plan.memory.replica.checkpoint) << "the chief saves";
  ASSERT_GT(chief, worker + 2 * kSlack);
  options.available = 0;
  options.pod_limits = {{api::Role::kChief, chief + kSlack}, {api::Role::kWorker, worker + kSlack}};
  EXPECT_EQ(Plan(options).refusal, "") << "only the chief needs that much";
  options.pod_limits = {{api::Role::kChief, worker + kSlack}, {api::Role::kWorker, chief}};
  EXPECT_THAT(Plan(options).refusal, HasSubstr("a pod of Chief needs "));
  options.pod_limits.erase(api::Role::kChief);
  EXPECT_THAT(Plan(options).refusal, HasSubstr("the pods without a limit (Chief) need "));
}

// With an Evaluator, the configuration of the other replicas says that they do not evaluate.
PlanOptions EvaluatedJob() {
  PlanOptions options = JobOf(1, 64);
  options.identity.training.checkpoint.directory = "/checkpoints";
  options.identity.training.evaluation.enabled = false;
  options.evaluators = 1;
  return options;
}

TEST(JobPlanTest, AnEvaluatorIsPlannedWithTheCheckpointThatItReads) {
  PlanOptions options = EvaluatedJob();
  const auto session = RealSession(options);
  const std::size_t model = ModelBytes(*session), optimizer = SnapshotBytes(*session) - model;
  SessionOptions evaluating{.training = options.identity.training, .only_evaluates = true};
  const auto evaluates = *Session::Assemble(
      evaluating, {.data = *Session::OpenData(evaluating),
                   .backend = MakeBackend({.name = "cpu"}),
                   .run = FollowedRun{.examples = 70, .input = {1, 28, 28}, .outputs = 10}});
  const std::size_t samples = (10 + 33) * 28 * 28;  // of test, and the patterns of the classes
  const std::size_t own =
      samples + evaluates->Memory().total() +
      Loader::BytesOfBatches(*evaluates->test_data(), {.plan = evaluates->plan()});
  const auto read = [&] {  // beside its session
    const JobPlan plan = Plan(options);
    const ReplicaMemory& replica = plan.memory.replica;
    const std::size_t process =
        PodOf(plan, api::Role::kWorker) - (replica.total() - replica.process);
    return PodOf(plan, api::Role::kEvaluator) - process - own;
  };
  EXPECT_EQ(read(), 2 * model) << "the tensors, and the file that they come from";
  options.identity.training.ema.emplace();
  EXPECT_EQ(read(), 4 * model) << "which has the average, too";
  options.identity.training.ema.reset();
  options.identity.training.checkpoint.keep_best = api::BestMetric::kLoss;
  EXPECT_EQ(read(), model + 2 * optimizer) << "to keep the best one, it reads all of it";
  options.pod_limits[api::Role::kEvaluator] = std::size_t{20} << 20;
  EXPECT_THAT(Plan(options).refusal, HasSubstr("a pod of Evaluator needs "));
}

// Another server was lost: the leading process loads all of them, while each worker has its
// connection, and the server the buffer for its gradient.
TEST(JobPlanTest, AServerNeedsRoomToBeLoadedAgainWhileItsWorkersAreConnected) {
  PlanOptions options = JobOf(2, 64);
  options.identity.strategy.type = api::StrategyType::kParameterServer;
  options.identity.cluster.ps = {"127.0.1.1:2222", "127.0.1.2:2222"};
  options.pod_limits[api::Role::kParameterServer] = std::uint64_t{1} << 60;
  for (const PlannedServer& server : Plan(options).messages.servers) {
    EXPECT_EQ(server.needed, 2 * server.held + 2 * server.moved);
  }
}

TEST_F(ComparedPlansTest, AnEvaluatorKeepsNoTrainingSamples) {
  PlanOptions options = EvaluatedJob();
  const std::size_t few = PodOf(Plan(options), api::Role::kEvaluator);
  options.identity.training.dataset.synthetic->train_examples = 60'000;  // 47 MB
  EXPECT_NEAR(static_cast<double>(PodOf(Plan(options), api::Role::kEvaluator)),
              static_cast<double>(few), kSlack);
  options.identity.training.dataset.synthetic->test_examples = 60'000;
  EXPECT_GT(PodOf(Plan(options), api::Role::kEvaluator), few + (std::size_t{40} << 20));
}

TEST(JobPlanTest, AParameterServerHasALimitThatNoBatchHelps) {
  PlanOptions options = JobOf(2, 64);
  options.identity.strategy.type = api::StrategyType::kParameterServer;
  options.identity.cluster.ps = {"127.0.1.1:2222"};
  const JobPlan shared = Plan(options);
  const std::size_t held = shared.messages.servers.at(0).held;
  EXPECT_GT(PodOf(shared, api::Role::kParameterServer), 2 * held) << "while they are loaded";
  options.pod_limits[api::Role::kParameterServer] = held;
  const JobPlan plan = Plan(options);
  EXPECT_GT(PodOf(plan, api::Role::kParameterServer), PodOf(shared, api::Role::kParameterServer))
      << "on a cluster, gradients and values pass through its memory";
  EXPECT_THAT(plan.refusal, HasSubstr("spec.replicaSpecs.PS: a pod of PS needs "));
  EXPECT_EQ(plan.largest->per_replica, 0);
}

TEST(JobPlanTest, AWorkerReadsNoTrainingBatchAheadForParameterServers) {
  PlanOptions options = JobOf(2, 64);
  options.identity.training.dataset.cache = false;
  options.identity.training.evaluation.enabled = false;
  const std::size_t ahead = Plan(options).memory.replica.batches;
  options.identity.strategy.type = api::StrategyType::kParameterServer;
  options.identity.strategy.parameter_server.emplace().mode = api::ParameterServerMode::kSync;
  options.identity.cluster.ps = {"127.0.1.1:2222"};
  const std::size_t batch = Plan(options).memory.replica.batches;
  EXPECT_EQ(ahead,
            batch * static_cast<std::size_t>(1 + options.identity.training.dataset.prefetch));
}

PlanOptions VariantsOf(const api::Json& variants) {
  PlanOptions options = JobOf(1, 8);
  options.identity.strategy.type = api::StrategyType::kIndependent;
  options.identity.processes_per_pod = static_cast<int>(variants.size());
  options.identity.training.variants = variants;
  return options;
}

TEST_F(ComparedPlansTest, TheVariantThatNeedsTheMostIsDescribedAndAllCount) {
  const JobPlan small = Plan(VariantsOf({{{"seed", 1}}, {{"seed", 2}}}));
  EXPECT_EQ(small.variant, 0);
  const JobPlan plan =
      Plan(VariantsOf({{{"batchSize", {{"global", 8}}}}, {{"batchSize", {{"global", 800}}}}}));
  EXPECT_EQ(plan.variant, 1);
  EXPECT_EQ(plan.steps.plan.LocalBatch(), 800);
  EXPECT_GT(plan.memory.replica.activations, 50 * small.memory.replica.activations);
  const std::size_t more = plan.memory.replica.total() - small.memory.replica.total();
  EXPECT_NEAR(static_cast<double>(plan.memory.job - small.memory.job), static_cast<double>(more),
              kSlack)
      << "the other one is as small as before";
  EXPECT_EQ(Plan(JobOf(1, 8)).variant, std::nullopt);
}

TEST(JobPlanTest, SettingsThatTakeTheSameMemoryAreMeasuredOnce) {
  api::Json variants = api::Json::array();
  for (int i = 0; i < 20; ++i) {
    variants.push_back({{"optimizer", {{"learningRate", 0.001 * (i + 1)}, {"beta1", 0.01 * i}}},
                        {"learningRateSchedule", {{"warmupSteps", i}}},
                        {"labelSmoothing", 0.01 * i}});
  }
  EXPECT_EQ(Plan(VariantsOf(variants)).measured, 1);
  variants[7]["optimizer"] = {{"name", "SGD"}};
  variants[9]["optimizer"] = {{"name", "SGD"}, {"momentum", 0.8}};
  variants[11]["optimizer"] = {{"name", "SGD"}, {"momentum", 0.9}};
  EXPECT_EQ(Plan(VariantsOf(variants)).measured, 3) << "with momentum, there is a slot";
}

TEST(JobPlanTest, TheSearchForTheLargestBatchMeasuresSmallerVariantsOnce) {
  PlanOptions options =
      VariantsOf({{{"batchSize", {{"global", 8}}}}, {{"batchSize", {{"global", 800}}}}});
  options.available = Plan(options).memory.job - (std::size_t{20} << 20);
  // The small one at its own batch and at one row; the other one as often as the search halves.
  EXPECT_LE(Plan(options).measured, 2 + 12);
}

TEST_F(ComparedPlansTest, TheLargestBatchLeavesSmallerVariantsAsTheyAre) {
  PlanOptions options =
      VariantsOf({{{"batchSize", {{"global", 8}}}}, {{"batchSize", {{"global", 800}}}}});
  options.available = Plan(options).memory.job - (std::size_t{20} << 20);
  const JobPlan refused = Plan(options);
  ASSERT_TRUE(refused.largest.has_value());
  EXPECT_GT(refused.largest->per_replica, 400);
  EXPECT_LT(refused.largest->per_replica, 800);
}

TEST(JobPlanTest, AVariantThatCannotBeTrainedIsNamed) {
  const PlanOptions options =
      VariantsOf({{{"seed", 1}},
                  {{"model", {{"name", "resnet-50"}, {"zeroGamma", false}}},
                   {"dataset", {{"format", "idx"}, {"path", "/nowhere"}}}}});
  EXPECT_THAT(std::string(PlanJob(options).status().message()), HasSubstr("variant 1: "));
}

// From a batch of 70 on, an epoch is one step and the job 3, after which it saves once. With a
// smaller one it saves earlier, too, and makes the next checkpoint while one is being written.
TEST(JobPlanTest, ABatchThatIsTooSmallToFitDoesNotHideTheLargestThatFits) {
  PlanOptions options = JobOf(1, 2500);
  options.identity.training.model.name = "";
  options.identity.training.model.layers = api::Json::array({{{"type", "Flatten"}},
                                                             {{"type", "Dense"}, {"units", 2000}},
                                                             {{"type", "Dense"}, {"units", 2000}},
                                                             {{"type", "Dense"}, {"units", 10}}});
  options.identity.training.checkpoint.directory = "/checkpoints";
  options.identity.training.checkpoint.every_steps = 3;
  const auto need_of = [&](std::int64_t rows) {
    PlanOptions changed = options;
    changed.identity.training.batch_size.global = rows;
    return Plan(changed).memory.job;
  };
  const std::size_t least = need_of(70), most = std::min(need_of(1), need_of(2500));
  ASSERT_GT(most, least + 4 * kSlack) << "one sample needs a second copy, 2500 much else";
  options.available = least + (most - least) / 2;
  const JobPlan plan = Plan(options);
  ASSERT_TRUE(plan.largest.has_value()) << plan.memory.job;
  EXPECT_GT(plan.largest->per_replica, 70) << plan.refusal;
  EXPECT_LT(plan.largest->per_replica, 2500);
}

TEST(JobPlanTest, AModelThatNoMachineHoldsIsPlanned) {
  PlanOptions options = JobOf(1, 1);
  options.identity.training.model = {};
  options.identity.training.model.layers = api::Json::array({{{"type", "Flatten"}},
                                                             {{"type", "Dense"}, {"units", 46'000}},
                                                             {{"type", "Dense"}, {"units", 46'000}},
                                                             {{"type", "Dense"}, {"units", 10}}});
  options.available = std::uint64_t{4} << 30;
  const JobPlan plan = Plan(options);
  EXPECT_GT(plan.memory.replica.optimizer, std::size_t{16} << 30);
  EXPECT_THAT(plan.refusal,
              HasSubstr("no batch fits, not even one sample per replica, with which all "
                        "pods need "));
}

}  // namespace
}  // namespace lockstep::train
