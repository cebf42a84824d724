// Models that are cut into stages train as whole ones do.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "api/v1/enum_names.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/train/rank.h"
#include "trainer/train/snapshot.h"
#include "trainer/train/stage_step.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using At = StrategyFaults::At;
using TensorsOfAll = std::map<std::string, std::vector<float>>;

api::Json LayerOf(const std::string& type, api::Json fields = api::Json::object()) {
  fields["type"] = type;
  return fields;
}

// A residual block, normalization and dropout, in four micro-batches of four, of which an epoch's
// last batch has fewer; and an average of the parameters.
api::TrainingSpec ResidualTraining() {
  api::TrainingSpec training = SmallTraining();
  const api::Json conv = {{"filters", 4}, {"kernelSize", 3}, {"padding", "same"}};
  training.model.layers = api::Json::array(
      {LayerOf("Conv2D", conv), LayerOf("BatchNormalization"), LayerOf("ReLU", {{"name", "entry"}}),
       LayerOf("Conv2D", conv), LayerOf("BatchNormalization", {{"name", "inner"}}),
       LayerOf("Add", {{"inputs", api::Json::array({"inner", "entry"})}}), LayerOf("ReLU"),
       LayerOf("MaxPooling2D"), LayerOf("Flatten"), LayerOf("Dropout", {{"rate", 0.25}}),
       LayerOf("Dense", {{"units", 8}, {"activation", "relu"}}), LayerOf("Dense", {{"units", 3}})});
  training.gradient_accumulation = 4;
  training.optimizer.name = "Adam";
  training.ema = api::EmaSpec{.decay = 0.75};
  return training;
}

struct StagesOutcome {
  TensorsOfAll tensors;
  RunState state;
};

void AddTensors(Session& session, TensorsOfAll& all) {
  const StateTensors own = CopyTensors(session);
  for (const auto* part : {&own.model, &own.optimizer}) {
    for (const NamedTensor& tensor : *part) all[tensor.name] = tensor.data;
  }
}

struct Layout {
  int stages = 1, pipelines = 1;
  std::string backend = "reference";
  bool allow_shm = true;
};

// Runs `run` for each rank, in a thread of its own.
void OnRanks(int world, const std::function<void(int rank)>& run) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
}

// Returns the outcomes by pipeline, each with the tensors of all its stages.
std::vector<StagesOutcome> Train(const api::TrainingSpec& training, const Layout& layout) {
  const int world = layout.stages * layout.pipelines;
  LocalRendezvousHub hub(world);
  std::vector<std::unique_ptr<Rank>> ranks(static_cast<std::size_t>(world));
  OnRanks(world, [&](int rank) {
    auto& own = ranks[static_cast<std::size_t>(rank)];
    own = std::make_unique<Rank>(training, world, hub, rank, nullptr, layout.backend, nullptr,
                                 RankPlace{.allow_shm = layout.allow_shm, .stages = layout.stages});
    EXPECT_TRUE(own->Train());
  });
  std::vector<StagesOutcome> outcomes(static_cast<std::size_t>(layout.pipelines));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    StagesOutcome& outcome = outcomes[rank / static_cast<std::size_t>(layout.stages)];
    AddTensors(*ranks[rank]->session, outcome.tensors);
    outcome.state = ranks[rank]->loop.state;
    EXPECT_EQ(outcome.state, ranks.front()->loop.state) << "rank " << rank;
  }
  return outcomes;
}

void ExpectNear(const TensorsOfAll& found, const TensorsOfAll& expected, float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& others = found.at(name);
    ASSERT_EQ(others.size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(others[i], values[i], tolerance) << name << " " << i;
    }
  }
}

class StagesOnDevicesTest : public ::testing::TestWithParam<std::string> {};

// The micro-batches of a pipeline are the parts of a whole model's batch, and are summed in the
// same order.
TEST_P(StagesOnDevicesTest, APipelineComputesTheBitsOfOneProcess) {
  api::TrainingSpec training = ResidualTraining();
  const bool is_slow = GetParam() == "cuda";  // simulated
  if (is_slow) training.epochs = 1;
  const StagesOutcome whole = Train(training, {.backend = GetParam()}).front();
  for (const int stages : {2, 3, 4}) {
    if (is_slow && stages > 2) continue;
    SCOPED_TRACE(stages);
    const StagesOutcome cut = Train(training, {.stages = stages, .backend = GetParam()}).front();
    EXPECT_EQ(cut.tensors, whole.tensors);
    EXPECT_EQ(cut.state, whole.state);
  }
}

// More blocks, so that there is memory to save.
api::TrainingSpec DeepResidualTraining() {
  api::TrainingSpec training = ResidualTraining();
  auto layers = training.model.layers->get<std::vector<api::Json>>();
  const auto pool = std::ranges::find(layers, LayerOf("MaxPooling2D"));
  std::vector<api::Json> blocks;
  std::string before = "re_lu";
  for (int i = 0; i < 4; ++i) {
    const std::string norm = fmt::format("norm{}", i), out = fmt::format("out{}", i);
    blocks.push_back(LayerOf(
        "Conv2D", {{"filters", 4}, {"kernelSize", 3}, {"padding", "same"}, {"inputs", {before}}}));
    blocks.push_back(LayerOf("BatchNormalization", {{"name", norm}}));
    blocks.push_back(LayerOf("Add", {{"inputs", {norm, before}}}));
    blocks.push_back(LayerOf("ReLU", {{"name", out}}));
    before = out;
  }
  layers.insert(pool, blocks.begin(), blocks.end());
  training.model.layers = api::Json(layers);
  return training;
}

TEST_P(StagesOnDevicesTest, ActivationsThatAreComputedAgainChangeNoBit) {
  api::TrainingSpec training = DeepResidualTraining();
  training.epochs = 1;
  const auto activations = [&] {
    const auto session = Session::Create({.training = training, .backend = GetParam()});
    EXPECT_TRUE(session.ok()) << session.status();
    return (*session)->Memory().model.activations;
  };
  const std::size_t all = activations();
  const StagesOutcome kept = Train(training, {.backend = GetParam()}).front();
  for (const auto checkpointing :
       {api::ActivationCheckpointing::kSelective, api::ActivationCheckpointing::kFull}) {
    training.activation_checkpointing = checkpointing;
    EXPECT_LT(activations(), all);
    for (const int stages : {1, 2}) {
      SCOPED_TRACE(std::string(api::NameOf(checkpointing)) + " in " + std::to_string(stages));
      const StagesOutcome again =
          Train(training, {.stages = stages, .backend = GetParam()}).front();
      EXPECT_EQ(again.tensors, kept.tensors);
      EXPECT_EQ(again.state, kept.state);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StagesOnDevicesTest, ::testing::ValuesIn(kDevices),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

TEST(StagesTest, PipelinesComputeTheBitsOfAsManyProcesses) {
  const api::TrainingSpec training = ResidualTraining();
  const StagesOutcome whole = Train(training, {.pipelines = 2}).front();
  for (const bool allow_shm : {true, false}) {
    for (const StagesOutcome& cut :
         Train(training, {.stages = 3, .pipelines = 2, .allow_shm = allow_shm})) {
      EXPECT_EQ(cut.tensors, whole.tensors);
      EXPECT_EQ(cut.state, whole.state);
    }
  }
}

// Train expects the same state of all ranks.
TEST(StagesTest, ARunThatStopsEarlyEndsAtTheSameStepInAllStages) {
  api::TrainingSpec training = ResidualTraining();
  training.early_stopping = api::EarlyStoppingSpec{.patience = 2, .min_delta = 100};
  api::TrainingSpec shorter = ResidualTraining();
  shorter.epochs = 3;
  const std::vector<StagesOutcome> outcomes = Train(training, {.stages = 2, .pipelines = 2});
  const std::vector<StagesOutcome> expected = Train(shorter, {.stages = 2, .pipelines = 2});
  for (const StagesOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.tensors, expected[0].tensors);
    EXPECT_EQ(outcome.state.step, 15);
    EXPECT_EQ(outcome.state.evaluated_step, 15);
  }
}

// The norm is that of all stages.
TEST(StagesTest, TheGradientIsClippedAsAWhole) {
  api::TrainingSpec training = ResidualTraining();
  training.optimizer.name = "SGD";
  training.optimizer.learning_rate = 0.1;
  const StagesOutcome unclipped = Train(training, {}).front();
  training.optimizer.global_clip_norm = 0.2;
  const StagesOutcome whole = Train(training, {}).front();
  const StagesOutcome cut = Train(training, {.stages = 3}).front();
  ExpectNear(cut.tensors, whole.tensors, 1e-5f);
  EXPECT_NE(whole.tensors, unclipped.tensors);
}

// Without micro-batches there is nothing to overlap, but the result is the same.
TEST(StagesTest, OneMicroBatchIsEnough) {
  api::TrainingSpec training = ResidualTraining();
  training.gradient_accumulation = 1;
  const StagesOutcome whole = Train(training, {}).front();
  EXPECT_EQ(Train(training, {.stages = 3}).front().tensors, whole.tensors);
}

// The first stage's last backward pass is still in its device's queue when its host has nothing
// left to do but to wait for its peers.
TEST(StagesTest, WhatADeviceStillComputesIsNoTimeOfPeers) {
  api::TrainingSpec training = ResidualTraining();
  training.gradient_accumulation = 1;
  LocalRendezvousHub hub(2);
  lockstep::testing::FakeClock clock;
  PhaseClock phases(clock);
  std::promise<void> at_peers;
  std::latch ended(2);  // who leaves earlier may take what the other one still receives
  const auto step = [&](int index, PhaseClock& own) {
    Rank rank(training, 2, hub, index, nullptr, "async-reference", nullptr, {.stages = 2});
    Session& session = *rank.session;
    session.model().InitializeParameters();
    const auto membership = rank.rendezvous.Join(0, "");
    ASSERT_TRUE(rank.strategy->Connect(*membership, rank.rendezvous.store()).ok());
    session.OpenGate();
    std::unique_ptr<Loader> loader;
    if (index == 0) loader = Loader::Create(session.train_data(), session.TrainingReads(0));
    int computes = 0;  // the third time, the output's gradient has come
    const auto entered = [&](api::StepPart part) {
      if (index > 0) return;
      if (part == api::StepPart::kPeers && computes == 3) at_peers.set_value();
      if (part != api::StepPart::kCompute || ++computes != 3) return;
      session.backend().stream().Call([&] {
        at_peers.get_future().wait_for(std::chrono::milliseconds(200));  // in vain
        clock.Advance(std::chrono::hours(1));
      });
    };
    EXPECT_FALSE(RunStageStep(session, *rank.strategy, loader.get(), {.entered = entered}, own));
    EXPECT_TRUE(std::holds_alternative<StepTotals>(EndStep(session, *rank.strategy, 0, own)));
    ended.arrive_and_wait();
  };
  {
    const std::jthread last([&] {
      PhaseClock own(clock);
      step(1, own);
    });
    step(0, phases);
  }
  EXPECT_EQ(phases.Read().Seconds(Phase::kBackward), 3600);
  EXPECT_EQ(phases.Read().Seconds(Phase::kCommunication), 0);
}

TEST(StagesTest, PrecisionsOfSixteenBitsCrossTheBorders) {
  for (const api::Precision precision : {api::Precision::kBFloat16, api::Precision::kFloat16}) {
    api::TrainingSpec training = ResidualTraining();
    training.precision = precision;
    const StagesOutcome whole = Train(training, {}).front();
    const StagesOutcome cut = Train(training, {.stages = 2}).front();
    EXPECT_EQ(cut.tensors, whole.tensors);
    EXPECT_EQ(cut.state, whole.state);
  }
}

TEST(StagesTest, EachProcessHoldsItsOwnTensorsOnly) {
  const api::TrainingSpec training = ResidualTraining();
  const auto whole = *Session::Create({.training = training, .backend = "reference"});
  std::vector<std::string> names;
  for (int stage = 0; stage < 3; ++stage) {
    const auto part =
        *Session::Create({.training = training, .backend = "reference", .stage = {stage, 3}});
    EXPECT_LT(part->Memory().model.parameters, whole->Memory().model.parameters);
    EXPECT_EQ(part->parts_in_flight(), 3 - stage);
    EXPECT_EQ(part->Fingerprint(),
              (*Session::Create({.training = training, .backend = "reference", .stage = {0, 3}}))
                  ->Fingerprint());
    EXPECT_NE(part->Fingerprint(), whole->Fingerprint());
    EXPECT_EQ(ModelHash(*part), ModelHash(*whole));
    for (const TensorSlot& slot : part->model().parameter_slots()) names.push_back(slot.name);
  }
  std::vector<std::string> expected;
  for (const TensorSlot& slot : whole->model().parameter_slots()) expected.push_back(slot.name);
  EXPECT_EQ(names, expected);
}

TEST(StagesTest, MoreStagesThanTheModelHasAreRefused) {
  const absl::Status status =
      Session::Create({.training = SmallTraining(), .backend = "reference", .stage = {0, 3}})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(std::string(status.message()).find("found 3, expected at most 2"), std::string::npos)
      << status;
}

// What a job with stages leaves, and what it goes on from.
class StagesCheckpointTest : public ::testing::Test {
 protected:
  std::unique_ptr<Rank> MakeRank(const api::TrainingSpec& training, LocalRendezvousHub& hub,
                                 int rank, const Layout& layout, CheckpointStore* store) {
    return std::make_unique<Rank>(training, layout.stages * layout.pipelines, hub, rank, nullptr,
                                  "reference", rank == 0 ? store : nullptr,
                                  RankPlace{.stages = layout.stages});
  }

  // Returns the final tensors of all stages.
  TensorsOfAll RunJob(const api::TrainingSpec& training, const Layout& layout) {
    const int world = layout.stages * layout.pipelines;
    LocalRendezvousHub hub(world);
    const auto store = OpenStore(folder_, ++started_);
    std::vector<std::unique_ptr<Rank>> ranks(static_cast<std::size_t>(world));
    OnRanks(world, [&](int rank) {
      auto& own = ranks[static_cast<std::size_t>(rank)];
      own = MakeRank(training, hub, rank, layout, store.get());
      EXPECT_TRUE(own->Train());
    });
    TensorsOfAll all;
    for (const auto& rank : ranks) AddTensors(*rank->session, all);
    return all;
  }

  const TempDirectory folder_;
  std::int64_t started_ = 0;
};

TEST_F(StagesCheckpointTest, ACheckpointGoesOnWithAnotherNumberOfStages) {
  api::TrainingSpec training = ResidualTraining();
  const TensorsOfAll whole = Train(training, {}).front().tensors;
  training.steps = 7;
  training.epochs.reset();
  RunJob(training, {.stages = 3});
  training.steps = 12;
  RunJob(training, {.stages = 2});
  training.steps = 16;
  RunJob(training, {});
  training.steps = 20;
  EXPECT_EQ(RunJob(training, {.stages = 4}), whole);
}

// The number of pipelines is another one, and the step means other samples.
TEST_F(StagesCheckpointTest, WithABatchPerReplicaAnotherNumberOfStagesNeedsTheBatchAsAWhole) {
  api::TrainingSpec training = ResidualTraining();
  training.epochs.reset();
  training.steps = 3;
  training.batch_size = {.global = {}, .per_replica = 8};
  RunJob(training, {.stages = 2, .pipelines = 2});
  training.steps = 6;
  LocalRendezvousHub hub(4);
  const auto store = OpenStore(folder_, ++started_);
  OnRanks(4, [&](int rank) {
    const LoopOutcome outcome =
        MakeRank(training, hub, rank, {.stages = 4}, store.get())->RunOnce();
    if (rank > 0) return;
    EXPECT_TRUE(absl::IsFailedPrecondition(outcome.reason)) << outcome.reason;
    EXPECT_THAT(std::string(outcome.reason.message()),
                HasSubstr("globalBatch = 16, this job has 8: use another checkpoint directory or "
                          "set batchSize.global = 16 instead of perReplica"));
  });
  training.batch_size = {.global = 16, .per_replica = {}};
  RunJob(training, {.stages = 4});
}

TEST_F(StagesCheckpointTest, ALostStageTakesAllBackToTheCheckpoint) {
  api::TrainingSpec training = ResidualTraining();
  training.checkpoint.every_steps = 5;
  const TensorsOfAll whole = Train(training, {}).front().tensors;
  const Layout layout{.stages = 3};
  LocalRendezvousHub hub(3);
  const auto store = OpenStore(folder_, 1);
  std::vector<std::unique_ptr<Rank>> ranks(3);
  OnRanks(3, [&](int rank) {
    if (rank == 1) {
      const auto kill = [&hub](int step) {
        if (step == 8) hub.EndGeneration("killed by the test");
      };
      Rank doomed(training, 3, hub, rank, kill, "reference", nullptr, RankPlace{.stages = 3});
      EXPECT_FALSE(doomed.Train(/*die_with_generation=*/true));
    }
    auto& own = ranks[static_cast<std::size_t>(rank)];
    own = MakeRank(training, hub, rank, layout, store.get());
    EXPECT_TRUE(own->Train());
  });
  TensorsOfAll all;
  for (const auto& rank : ranks) AddTensors(*rank->session, all);
  EXPECT_EQ(all, whole);
  EXPECT_EQ(ranks[0]->loop.state.ledger.lost_total(), 0);
  EXPECT_EQ(ranks[0]->loop.state.ledger.duplicated_total(), 0);
}

// No checkpoint is there: the other pipeline has the stage's state.
TEST_F(StagesCheckpointTest, ALostStageTakesTheStateOfAnotherPipeline) {
  const api::TrainingSpec training = ResidualTraining();
  const TensorsOfAll whole = Train(training, {.pipelines = 2}).front().tensors;
  LocalRendezvousHub hub(4);
  std::vector<std::unique_ptr<Rank>> ranks(4);
  std::vector<std::int64_t> first_steps(4, -1);
  OnRanks(4, [&](int rank) {
    if (rank == 3) {
      const auto kill = [&hub](int step) {
        if (step == 8) hub.EndGeneration("killed by the test");
      };
      Rank doomed(training, 4, hub, rank, kill, "reference", nullptr, RankPlace{.stages = 2});
      EXPECT_FALSE(doomed.Train(/*die_with_generation=*/true));
    }
    auto& own = ranks[static_cast<std::size_t>(rank)];
    own = MakeRank(training, hub, rank, {.stages = 2, .pipelines = 2}, nullptr);
    EXPECT_TRUE(own->Train());
  });
  for (const int pipeline : {0, 2}) {
    TensorsOfAll all;
    for (const int stage : {0, 1}) {
      AddTensors(*ranks[static_cast<std::size_t>(pipeline + stage)]->session, all);
    }
    EXPECT_EQ(all, whole);
  }
  EXPECT_EQ(ranks[3]->loop.state.ledger.lost_total(), 0);
}

TEST_F(StagesCheckpointTest, TheModelIsExportedAndTakenAsInitialWeights) {
  api::TrainingSpec training = ResidualTraining();
  training.checkpoint.export_to = folder_.At("model.safetensors");
  training.optimizer.learning_rate = 0.05;
  const TensorsOfAll trained = RunJob(training, {.stages = 3});
  training.initial_weights.path = training.checkpoint.export_to;
  training.checkpoint.export_to.clear();
  training.epochs = 1;
  const TensorsOfAll whole = Train(training, {}).front().tensors;
  const TempDirectory other;
  EXPECT_EQ(Train(training, {.stages = 2}).front().tensors, whole);
  EXPECT_NE(trained, whole);
}

// Each stage keeps its own part, whoever has read it.
TEST_F(StagesCheckpointTest, TheBestModelIsThatOfAllStages) {
  api::TrainingSpec plain = ResidualTraining();
  plain.ema.reset();  // the best model excludes it
  api::TrainingSpec best = plain, training = plain;
  best.epochs = 1;
  best.checkpoint.export_to = folder_.At("best.safetensors");
  Train(best, {});
  const std::string expected = ReadTextFile(best.checkpoint.export_to);
  training.early_stopping =
      api::EarlyStoppingSpec{.patience = 9, .min_delta = 100, .restore_best = true};
  training.checkpoint.export_to = folder_.At("model.safetensors");
  training.epochs.reset();
  const std::vector<std::pair<int, Layout>> runs = {
      {7, {.stages = 3}}, {12, {.stages = 2}}, {16, {}}, {20, {.stages = 4}}};
  TensorsOfAll tensors;
  for (const auto& [steps, layout] : runs) {
    SCOPED_TRACE(steps);
    training.steps = steps;
    tensors = RunJob(training, layout);
    EXPECT_EQ(ReadTextFile(training.checkpoint.export_to), expected);
    const std::string saved = fmt::format("step-{:08}/model.safetensors", steps);
    EXPECT_EQ(ReadTextFile(folder_.At(saved)), expected);
  }
  EXPECT_EQ(tensors, Train(plain, {}).front().tensors) << "the training's own";
  std::filesystem::remove(training.checkpoint.export_to);
  RunJob(training, {.stages = 2, .pipelines = 2});  // there is nothing to save
  EXPECT_EQ(ReadTextFile(training.checkpoint.export_to), expected);
}

// No checkpoint is there: the other pipeline has the stage's part.
TEST_F(StagesCheckpointTest, ALostStageTakesTheBestModelOfAnotherPipeline) {
  api::TrainingSpec training = ResidualTraining();
  training.ema.reset();
  training.early_stopping =
      api::EarlyStoppingSpec{.patience = 9, .min_delta = 100, .restore_best = true};
  for (const int lost : {0, 3}) {
    LocalRendezvousHub hub(4);
    std::vector<std::unique_ptr<Rank>> ranks(4);
    OnRanks(4, [&](int rank) {
      if (rank == lost) {
        const auto kill = [&hub](int step) {
          if (step == 8) hub.EndGeneration("killed by the test");
        };
        Rank doomed(training, 4, hub, rank, kill, "reference", nullptr, RankPlace{.stages = 2});
        EXPECT_FALSE(doomed.Train(/*die_with_generation=*/true));
      }
      auto& own = ranks[static_cast<std::size_t>(rank)];
      own = MakeRank(training, hub, rank, {.stages = 2, .pipelines = 2}, nullptr);
      EXPECT_TRUE(own->Train());
    });
    for (const std::size_t stage : {0, 1}) {
      const BestModel &one = ranks[stage]->loop.best, &other = ranks[stage + 2]->loop.best;
      EXPECT_EQ(one.step, 5);
      EXPECT_FALSE(one.tensors.empty());
      EXPECT_EQ(one.tensors, other.tensors);
    }
  }
}

// All stages end alike, although only the last one sees the loss.
TEST(StagesTest, AllStagesDivergeTogether) {
  api::TrainingSpec training = ResidualTraining();
  training.optimizer.name = "SGD";
  training.optimizer.learning_rate = 1e30;
  LocalRendezvousHub hub(3);
  OnRanks(3, [&](int rank) {
    Rank own(training, 3, hub, rank, nullptr, "reference", nullptr, RankPlace{.stages = 3});
    EXPECT_EQ(own.RunOnce().end, LoopEnd::kDiverged);
  });
}

// Only one of them has the tensor that does not decay.
TEST(StagesTest, AnExclusionMayNameATensorOfAnotherStage) {
  api::TrainingSpec training = ResidualTraining();
  training.optimizer.weight_decay = 0.1;
  training.optimizer.weight_decay_exclude = {"dense_1/"};
  const StagesOutcome whole = Train(training, {}).front();
  EXPECT_EQ(Train(training, {.stages = 3}).front().tensors, whole.tensors);
}

TEST(StagesTest, TensorsWithStepsOfTheirOwnAreThoseOfTheWholeModel) {
  for (const std::string optimizer : {"LARS", "LAMB"}) {
    api::TrainingSpec training = ResidualTraining();
    training.optimizer.name = optimizer;
    const StagesOutcome whole = Train(training, {}).front();
    EXPECT_EQ(Train(training, {.stages = 3}).front().tensors, whole.tensors) << optimizer;
  }
}

// A pod that is asked to stop stops the group at one step, with a checkpoint.
TEST_F(StagesCheckpointTest, AStopSavesTheStateOfAllStages) {
  const api::TrainingSpec training = ResidualTraining();
  LocalRendezvousHub hub(3);
  const auto store = OpenStore(folder_, 1);
  OnRanks(3, [&](int rank) {
    const auto own = MakeRank(training, hub, rank, {.stages = 3}, store.get());
    if (rank == 2) own->rendezvous.asked_to_stop = true;
    const LoopOutcome outcome = own->RunOnce();
    EXPECT_EQ(outcome.end, LoopEnd::kStopped);
    EXPECT_TRUE(outcome.reason.ok()) << outcome.reason;
    EXPECT_EQ(own->loop.state.step, 1);
  });
  const auto session = *Session::Create({.training = training, .backend = "reference"});
  RunState state;
  const auto saved = store->LoadLatest(ModelHash(*session));
  ASSERT_TRUE(saved.ok() && saved->has_value());
  EXPECT_TRUE(RestoreSnapshot(**saved, *session, state).ok());
  EXPECT_EQ(state.step, 1);
}

}  // namespace
}  // namespace lockstep::train
