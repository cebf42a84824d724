// tests/local_run/plan_test.py compares plans with whole runs.
#include "trainer/plan/job_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "trainer/data/loader.h"
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
  EXPECT_EQ(plan.memory.job, 2 * plan.memory.pod);
  std::size_t bytes = 0;
  for (const NamedTensor& tensor : MakeSnapshot(*session, {.step = 0}, Time()).model) {
    bytes += tensor.data.size() * sizeof(float);
  }
  EXPECT_EQ(plan.checkpoint, 3 * bytes) << "the model, and two slots of Adam";
}

TEST(JobPlanTest, OnlyTheReplicaThatSavesKeepsCheckpoints) {
  PlanOptions options = JobOf(3, 6);
  options.identity.training.checkpoint.directory = "/checkpoints";
  options.identity.training.checkpoint.every_steps = 0;
  options.identity.processes_per_pod = 2;
  const PlannedMemory once = Plan(options).memory;
  EXPECT_EQ(once.replica.checkpoint, Plan(options).checkpoint);
  EXPECT_EQ(once.job, 3 * once.pod - 2 * once.replica.checkpoint);
  options.identity.training.checkpoint.every_steps = 1;
  EXPECT_EQ(Plan(options).memory.replica.checkpoint, 2 * once.replica.checkpoint)
      << "the next one is made while one is written";
}

TEST(JobPlanTest, WithCentralStorageOnlyTheControllerHasTheOptimizersSlots) {
  PlanOptions options = JobOf(1, 6);
  options.identity.processes_per_pod = 3;
  options.identity.training.optimizer.name = "Adam";
  const auto beyond_replicas = [&](api::StrategyType type) {
    options.identity.strategy.type = type;
    const PlannedMemory memory = Plan(options).memory;
    return static_cast<double>(memory.pod) - 3.0 * static_cast<double>(memory.replica.total());
  };
  const auto slots = static_cast<double>(Plan(options).memory.replica.optimizer);
  ASSERT_GT(slots, 0);
  // Beyond its replicas a pod has its supervisor, planned as large as this process is by then.
  EXPECT_NEAR(beyond_replicas(api::StrategyType::kMirrored) -
                  beyond_replicas(api::StrategyType::kCentralStorage),
              2 * slots, slots / 4);
}

TEST(JobPlanTest, BucketsAreThoseOfTheStrategy) {
  const PlanOptions options = JobOf(4, 64);
  const PlannedMessages messages = Plan(options).messages;
  const auto session = RealSession(options);
  std::vector<std::size_t> expected;
  for (const auto& bucket :
       BucketsOf(session->buffer(), {.layer_starts = session->LayerStarts()})) {
    expected.push_back(static_cast<std::size_t>(bucket.end - bucket.begin) * sizeof(float));
  }
  EXPECT_GT(expected.size(), 1u);
  EXPECT_EQ(messages.buckets, expected);
  const auto all = std::accumulate(expected.begin(), expected.end(), std::size_t{0});
  EXPECT_EQ(all, session->buffer().size() * sizeof(float));
  EXPECT_NEAR(static_cast<double>(messages.sent), 1.5 * static_cast<double>(all), 4.0);
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

TEST(JobPlanTest, WithoutALimitAllPodsMustFitIntoTheMachine) {
  PlanOptions options = JobOf(2, 2000);
  options.available = Plan(options).memory.job - (std::size_t{20} << 20);
  const JobPlan refused = Plan(options);
  EXPECT_THAT(refused.refusal, HasSubstr("all pods need"));
  ASSERT_TRUE(refused.largest.has_value());
  EXPECT_LT(refused.largest->per_replica, 1000);
  EXPECT_GT(refused.largest->per_replica, 900);
  EXPECT_EQ(refused.largest->global, 2 * refused.largest->per_replica);
  options.pod_limit = std::uint64_t{1} << 60;
  EXPECT_EQ(Plan(options).refusal, "") << "on a cluster, the limit decides";
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
  EXPECT_THAT(plan.refusal, HasSubstr("no batch fits, not even one sample"));
}

}  // namespace
}  // namespace lockstep::train
