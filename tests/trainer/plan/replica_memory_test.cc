#include "trainer/plan/replica_memory.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

struct Measurable {
  SessionOptions options;
  PlannedData data;
  Identity identity;
};

Measurable MeasurableOf(int processes) {
  Measurable job;
  api::TrainingSpec& training = job.options.training;
  training.model.name = "core-cnn";
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.batch_size.global = 6;
  training.steps = 5;
  training.checkpoint.directory = "/checkpoints";
  job.options.world = processes;
  job.identity.training = training;
  job.identity.strategy.type = api::StrategyType::kCentralStorage;
  job.identity.processes_per_pod = processes;
  job.identity.cluster.worker = {"127.0.0.1:2222"};
  job.data = *PlanData(job.options, {});
  return job;
}

MeasuredReplica Measure(const Measurable& job) {
  return *MeasureReplica(job.options, job.data, job.identity, /*process=*/0);
}

TEST(ReplicaMemoryTest, WithCentralStorageTheOthersReadTheParametersOfTheController) {
  Measurable job = MeasurableOf(3);
  const MeasuredReplica measured = Measure(job);
  const ReplicaMemory &memory = measured.memory, &other = measured.other;
  EXPECT_GT(memory.optimizer, 0u);
  EXPECT_GT(memory.checkpoint, 0u);
  EXPECT_EQ(other.parameters, measured.session->Memory().model.states);
  EXPECT_EQ(other.gradients, memory.gradients);
  EXPECT_EQ(other.total(), memory.total() - memory.optimizer - memory.checkpoint - memory.staging -
                               measured.session->Memory().model.parameters);
}

TEST(ReplicaMemoryTest, OnGpusNoReplicaHasParametersInTheHostsMemory) {
  Measurable job = MeasurableOf(3);
  job.identity.gpus = 3;
  const MeasuredReplica measured = Measure(job);
  EXPECT_EQ(measured.memory.parameters, 0u);
  EXPECT_EQ(measured.other.parameters, 0u) << "nothing is taken from what is not counted";
  EXPECT_EQ(measured.other.gradients, measured.session->Memory().sums);
}

TEST(ReplicaMemoryTest, WithoutSharedMemoryTheOthersHaveACopyOfTheParameters) {
  Measurable job = MeasurableOf(3);
  job.identity.strategy.communication = api::Communication::kRing;
  const MeasuredReplica measured = Measure(job);
  EXPECT_EQ(measured.other.parameters, measured.memory.parameters);
  EXPECT_EQ(measured.other.optimizer, 0u);
  EXPECT_EQ(measured.other.staging, 0u) << "they make no values of their own";
}

TEST(ReplicaMemoryTest, WithMirroredTheOthersOnlySaveNoCheckpoints) {
  Measurable job = MeasurableOf(3);
  job.identity.strategy.type = api::StrategyType::kMirrored;
  const MeasuredReplica measured = Measure(job);
  EXPECT_EQ(measured.other.total(), measured.memory.total() - measured.memory.checkpoint);
}

TEST(ReplicaMemoryTest, ARunThatEndsBeforeItsSecondCheckpointHasOneCopy) {
  Measurable job = MeasurableOf(3);
  const auto copies = [&](const std::optional<std::int64_t>& steps, std::int64_t batch) {
    job.options.training.steps = steps;
    job.options.training.epochs = 2;
    job.options.training.checkpoint.every_steps = 4;
    job.data.train.samples = 30;
    return CheckpointCopies(job.options.training, job.data,
                            {.examples = 30, .global_batch = batch, .world = 3});
  };
  EXPECT_EQ(copies(4, 6), 1);
  EXPECT_EQ(copies(5, 6), 2);
  EXPECT_EQ(copies(std::nullopt, 15), 1) << "2 epochs of 2 steps";
  EXPECT_EQ(copies(std::nullopt, 12), 2) << "2 epochs of 3 steps";
  job.data.train.samples.reset();
  EXPECT_EQ(CheckpointCopies(job.options.training, job.data, {.examples = 1, .global_batch = 15}),
            2)
      << "how many steps there are is not known";
}

}  // namespace
}  // namespace lockstep::train
