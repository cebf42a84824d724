// Stage 1 of ZeRO: each rank holds a share of the optimizer's state. Training computes the bits of
// ranks that hold all of it.
#include "trainer/train/share_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/train/rank.h"
#include "trainer/checkpoint/average_tensors.h"

namespace lockstep::train {
namespace {

using ShardedAt = StrategyFaults::At;

// How updated parameters reach the other ranks: by a copy within a host's memory, over sockets, or
// from a device with a queue, through the host or by NCCL.
struct ExchangeRoad {
  std::string backend = "reference";
  bool allow_shm = true;
  bool is_simulated_gpu() const { return BackendOf(backend) == "cuda"; }
};
void PrintTo(const ExchangeRoad& road, std::ostream* out) {
  *out << road.backend << (road.allow_shm ? "" : " over sockets");
}

// What the ranks of a group have in the end: the parameters of each; the slots of all together, in
// the order of a whole slot; and the run's state, the same on all.
struct GroupOutcome {
  std::vector<std::vector<float>> parameters;
  std::vector<std::vector<float>> slots;
  std::vector<float> states;
  RunState run;
};

// Runs `run` for each rank, in a thread of its own.
void OnEachRank(int world, const std::function<void(int rank)>& run) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) threads.emplace_back(run, rank);
}

// A process that is lost as it begins its n-th operation of a kind, counted from 0.
struct ProcessLoss {
  int rank = -1;
  ShardedAt at = ShardedAt::kStep;
  int n = 0;
};

struct Group {
  api::TrainingSpec training;
  int world = 2;
  UpdateSite site = UpdateSite::kShares;
  ExchangeRoad road = {};
  const TempDirectory* folder = nullptr;  // of rank 0's checkpoints; null: none
  ProcessLoss loss = {};

  std::unique_ptr<CheckpointStore> StoreOf(int rank, std::int64_t started) const {
    return folder != nullptr && rank == 0 ? OpenStore(*folder, started) : nullptr;
  }
  std::unique_ptr<Rank> MakeRank(LocalRendezvousHub& hub, int rank, CheckpointStore* store) const {
    return std::make_unique<Rank>(training, world, hub, rank, nullptr, road.backend, store,
                                  RankPlace{.site = site, .allow_shm = road.allow_shm});
  }

  // Trains to the end. The lost process gets a successor.
  GroupOutcome Train(std::int64_t started = 2) const {
    LocalRendezvousHub hub(world);
    std::vector<std::unique_ptr<CheckpointStore>> stores(static_cast<std::size_t>(world));
    std::vector<std::unique_ptr<Rank>> ranks(static_cast<std::size_t>(world));
    OnEachRank(world, [&](int rank) {
      if (rank == loss.rank) Lose(hub);
      const auto at = static_cast<std::size_t>(rank);
      stores[at] = StoreOf(rank, started);
      ranks[at] = MakeRank(hub, rank, stores[at].get());
      EXPECT_TRUE(ranks[at]->Train());
    });
    return OutcomeOf(ranks);
  }

  // Trains until `step`, whose end no rank sees.
  void TrainUntil(std::int64_t step) const {
    LocalRendezvousHub hub(world);
    OnEachRank(world, [&](int index) {
      const auto store = StoreOf(index, 1);
      const auto rank = MakeRank(hub, index, store.get());
      rank->faults.before = DiesInStep(step);
      EXPECT_EQ(rank->RunOnce().end, LoopEnd::kGenerationOver);
      EXPECT_TRUE(rank->saver == nullptr || rank->saver->Wait().ok());
    });
  }

  GroupOutcome OutcomeOf(const std::vector<std::unique_ptr<Rank>>& ranks) const {
    GroupOutcome outcome{.run = ranks.front()->loop.state};
    for (const auto& rank : ranks) {
      outcome.parameters.push_back(rank->Parameters());
      EXPECT_EQ(rank->loop.state, outcome.run);
    }
    const auto download = [](Rank& rank, std::span<float> values) {
      return Download(rank.session->backend(), values);
    };
    outcome.states = download(*ranks.front(), ranks.front()->session->model().states());
    const std::size_t holders = site == UpdateSite::kShares && world > 1 ? ranks.size() : 1;
    for (int i = 0; i < ranks.front()->session->optimizer().slots(); ++i) {
      auto& slot = outcome.slots.emplace_back();
      for (std::size_t rank = 0; rank < holders; ++rank) {
        const auto part = download(*ranks[rank], ranks[rank]->session->optimizer().slot(i));
        slot.insert(slot.end(), part.begin(), part.end());
      }
    }
    return outcome;
  }

 private:
  void Lose(LocalRendezvousHub& hub) const {
    const auto store = StoreOf(loss.rank, 1);
    const auto doomed = MakeRank(hub, loss.rank, store.get());
    doomed->faults.before = [&, begun = 0](ShardedAt at) mutable {
      if (at != loss.at || begun++ != loss.n) return absl::OkStatus();
      hub.EndGeneration("killed by the test");
      return absl::UnavailableError("killed");
    };
    EXPECT_FALSE(doomed->Train(/*die_with_generation=*/true));
  }
};

Group MirroredAs(Group group) {
  group.site = UpdateSite::kEveryRank;
  group.loss = {};
  return group;
}

void ExpectOutcome(const GroupOutcome& found, const GroupOutcome& expected) {
  for (const auto& parameters : found.parameters) {
    EXPECT_EQ(parameters, expected.parameters.front());
  }
  EXPECT_EQ(found.slots, expected.slots);
  EXPECT_EQ(found.states, expected.states);
  EXPECT_EQ(found.run, expected.run);
  EXPECT_EQ(found.run.ledger.lost_total() + found.run.ledger.duplicated_total(), 0);
}

// Files of the newest checkpoint, by name.
std::map<std::string, std::string> NewestTensors(const TempDirectory& folder) {
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (std::filesystem::exists(entry.path() / "manifest.json")) {
      newest = std::max(newest, entry.path());
    }
  }
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(newest)) {
    if (entry.path().extension() != ".safetensors") continue;
    files[newest.filename() / entry.path().filename()] = ReadTextFile(entry.path());
  }
  return files;
}

// Twenty steps of a model large enough that shares cut its tensors, with all that is decided for
// the whole gradient, sums over the parts of a batch, and running statistics.
api::TrainingSpec ShardedTraining(const std::string& optimizer = "Adam") {
  api::TrainingSpec training = SmallTraining();
  api::Json layers = *training.model.layers;
  layers.insert(layers.begin() + 1, api::Json{{"type", "BatchNormalization"}});
  layers.insert(layers.end() - 1,
                api::Json{{"type", "Dense"}, {"units", 24}, {"activation", "relu"}});
  training.model.layers = std::move(layers);
  training.gradient_accumulation = 3;
  training.optimizer.name = optimizer;
  training.optimizer.global_clip_norm = 0.05;
  training.learning_rate_schedule = {.type = api::ScheduleType::kCosine, .warmup_steps = 3};
  return training;
}

std::vector<api::TrainingSpec> WithEachOptimizer() {
  std::vector<api::TrainingSpec> all;
  for (const char* name : {"SGD", "Adam", "RMSprop", "Adagrad", "LARS", "LAMB", "Muon"}) {
    all.push_back(ShardedTraining(name));
    if (name == std::string("SGD") || name == std::string("LARS")) {
      all.back().optimizer.momentum = 0.9;
    }
  }
  all.push_back(ShardedTraining("Adam"));  // AdamW
  all.back().optimizer.weight_decay = 0.01;
  all.back().optimizer.weight_decay_exclude = {"bias", "gamma", "beta"};
  all.push_back(ShardedTraining("Adam"));
  all.back().ema = api::EmaSpec{.decay = 0.75};
  return all;
}

class ShardingTest : public ::testing::TestWithParam<ExchangeRoad> {};

TEST_P(ShardingTest, ComputesTheBitsOfMirroredWithEachOptimizer) {
  for (api::TrainingSpec& training : WithEachOptimizer()) {
    if (GetParam().is_simulated_gpu()) training.epochs = 1;
    SCOPED_TRACE(training.optimizer.name);
    const Group group{.training = training, .road = GetParam()};
    ExpectOutcome(group.Train(), MirroredAs(group).Train());
  }
}

TEST_P(ShardingTest, ComputesTheBitsOfMirroredWithAnyNumberOfRanks) {
  api::TrainingSpec training = ShardedTraining();
  training.ema = api::EmaSpec{.decay = 0.75};
  if (GetParam().is_simulated_gpu()) training.epochs = 1;
  for (const int world : {1, 3, 4}) {
    if (world == 4 && GetParam().backend == kOwnGpus) continue;  // there are three
    SCOPED_TRACE(world);
    Group group{.training = training, .world = world, .road = GetParam()};
    if (world == 1) group.site = UpdateSite::kEveryRank;  // as UpdateSiteOf says
    ExpectOutcome(group.Train(), MirroredAs(group).Train());
  }
}

TEST_P(ShardingTest, ComputesTheBitsOfMirroredWithALossScaleThatSkipsSteps) {
  api::TrainingSpec training = SmallTraining();
  training.precision = api::Precision::kFloat16;
  training.max_skipped_steps = 20;
  const Group group{.training = training, .world = 3, .road = GetParam()};
  ExpectOutcome(group.Train(), MirroredAs(group).Train());
}

// A rank takes its share with it. All go back to the checkpoint, and end with the same bits.
TEST_P(ShardingTest, ALostRankGoesOnFromTheCheckpointBitForBit) {
  api::TrainingSpec training = ShardedTraining();
  training.ema = api::EmaSpec{.decay = 0.75};
  training.checkpoint.every_steps = 3;
  const GroupOutcome whole = MirroredAs({.training = training, .road = GetParam()}).Train();
  for (const int lost : {0, 1}) {
    for (const auto& [at, n] : {std::pair{ShardedAt::kStep, 7}, {ShardedAt::kParameters, 9}}) {
      SCOPED_TRACE(::testing::Message() << "rank " << lost << " at " << n);
      const TempDirectory folder;
      ExpectOutcome(
          Group{.training = training, .road = GetParam(), .folder = &folder, .loss = {lost, at, n}}
              .Train(),
          whole);
    }
  }
}

TEST_P(ShardingTest, ALostRankWithoutCheckpointsBeginsAgain) {
  const Group group{
      .training = ShardedTraining(), .road = GetParam(), .loss = {1, ShardedAt::kStep, 7}};
  ExpectOutcome(group.Train(), MirroredAs(group).Train());
}

// The exchange fails, but no process is lost: all have updated their shares, and exchange them
// again. There is no checkpoint to go back to, and no step is done twice.
TEST_P(ShardingTest, AnExchangeThatFailsIsMadeGoodFromMemory) {
  const Group group{.training = ShardedTraining(), .road = GetParam()};
  const GroupOutcome whole = MirroredAs(group).Train();
  for (const int failing : {0, 1}) {
    for (const int exchange : {0, 8, 22}) {
      SCOPED_TRACE(::testing::Message() << "rank " << failing << " in exchange " << exchange);
      LocalRendezvousHub hub(2);
      std::vector<std::unique_ptr<Rank>> ranks(2);
      std::atomic<int> begun = 0, most_steps = 0;
      OnEachRank(2, [&](int index) {
        auto& rank = ranks[static_cast<std::size_t>(index)];
        rank = group.MakeRank(hub, index, nullptr);
        rank->faults.before = [&, steps = 0](ShardedAt at) mutable {
          if (at == ShardedAt::kStep) most_steps = std::max<int>(most_steps, ++steps);
          return absl::OkStatus();
        };
        // When this rank has the others' shares, all have updated.
        rank->faults.after = [&, exchanges = 0](ShardedAt at) mutable {
          const bool fails = index == failing && at == ShardedAt::kParameters &&
                             exchanges++ == exchange && begun++ == 0;
          if (!fails) return absl::OkStatus();
          hub.EndGeneration("the network failed");
          return absl::UnavailableError("the parameters were lost on the way");
        };
        EXPECT_TRUE(rank->Train());
      });
      EXPECT_EQ(begun, 1);
      EXPECT_LE(most_steps, 22) << "one or two that were begun, and then begun again";
      ExpectOutcome(group.OutcomeOf(ranks), whole);
    }
  }
}

// Half a run on three ranks, the rest on another number, as without sharding. The checkpoints are
// the same to the byte, so either kind of group goes on from those of the other.
TEST_P(ShardingTest, ACheckpointIsThatOfMirroredAndIsTakenByAnyNumberOfRanks) {
  api::TrainingSpec training = ShardedTraining("LAMB");
  training.ema = api::EmaSpec{.decay = 0.75};
  training.checkpoint.every_steps = 10;
  const Group first{.training = training, .world = 3, .road = GetParam()};
  for (const int world : {1, 2, 4}) {
    if (world == 4 && GetParam().backend == kOwnGpus) continue;  // there are three
    SCOPED_TRACE(world);
    const TempDirectory sharded, mirrored;
    Group half = first;
    half.folder = &sharded;
    half.TrainUntil(10);
    half.folder = &mirrored;
    MirroredAs(half).TrainUntil(10);
    EXPECT_EQ(NewestTensors(sharded), NewestTensors(mirrored));
    Group rest = first;
    rest.world = world;
    rest.site = world == 1 ? UpdateSite::kEveryRank : UpdateSite::kShares;
    rest.folder = &mirrored;
    const GroupOutcome found = rest.Train();
    rest.folder = &sharded;
    ExpectOutcome(found, MirroredAs(rest).Train());
  }
}

INSTANTIATE_TEST_SUITE_P(OnEveryRoad, ShardingTest,
                         ::testing::Values(ExchangeRoad{}, ExchangeRoad{.allow_shm = false},
                                           ExchangeRoad{.backend = "async-reference"},
                                           ExchangeRoad{.backend = "cpu"},
                                           ExchangeRoad{.backend = "cuda"},
                                           ExchangeRoad{.backend = kOwnGpus}));

TEST(ShardingMemoryTest, EachRankAllocatesItsShareOfTheOptimizersState) {
  const auto slots = [](UpdateSite site, int world, int rank, const std::string& backend) {
    const auto session = *Session::Create({.training = ShardedTraining(),
                                           .world = world,
                                           .backend = backend,
                                           .update_site = site,
                                           .rank = rank});
    return session->Memory().slots;
  };
  for (const std::string& backend : kDevices) {
    const std::size_t whole = slots(UpdateSite::kEveryRank, 4, 0, backend);
    std::size_t sum = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const std::size_t share = slots(UpdateSite::kShares, 4, rank, backend);
      EXPECT_NEAR(static_cast<double>(share), static_cast<double>(whole) / 4, 256) << rank;
      sum += share;
    }
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(whole), 1024);
  }
}

// No rank has more than its share of an average that becomes the best model.
TEST(ShardingBestTest, TheBestAveragedModelIsThatOfMirrored) {
  const TempDirectory exports;
  api::TrainingSpec training = RestoringTraining(3);
  training.ema = api::EmaSpec{.decay = 0.75};
  training.checkpoint.every_steps = 3;
  training.checkpoint.export_to = exports.At("model.safetensors");
  MirroredAs({.training = training}).Train();
  const std::string expected = ReadTextFile(training.checkpoint.export_to);
  for (const int lost : {-1, 0, 1}) {
    SCOPED_TRACE(lost);
    std::filesystem::remove(training.checkpoint.export_to);
    const TempDirectory folder;
    const Group group{
        .training = training, .folder = &folder, .loss = {lost, ShardedAt::kStep, 10}};
    EXPECT_EQ(group.Train().run.best.step, 5);
    EXPECT_EQ(ReadTextFile(training.checkpoint.export_to), expected);
  }
}

// In the middle of an evaluation the averages are in the place of the parameters.
TEST(ShardingStopTest, AStopInAnEvaluationSavesWhatMirroredSaves) {
  api::TrainingSpec training = ShardedTraining();
  training.ema = api::EmaSpec{.decay = 0.75};
  std::map<std::string, std::string> saved[2];
  for (const UpdateSite site : {UpdateSite::kEveryRank, UpdateSite::kShares}) {
    const TempDirectory folder;
    const Group group{.training = training, .site = site, .folder = &folder};
    LocalRendezvousHub hub(2);
    OnEachRank(2, [&](int index) {
      const auto store = group.StoreOf(index, 1);
      const auto rank = group.MakeRank(hub, index, store.get());
      rank->rendezvous.at_activity = [&](api::Activity activity) {
        if (activity == api::Activity::kEvaluation) rank->rendezvous.asked_to_stop = true;
      };
      const LoopOutcome outcome = rank->RunOnce();
      EXPECT_EQ(outcome.end, LoopEnd::kStopped) << outcome.reason;
      EXPECT_EQ(rank->loop.state.step, 5);
    });
    saved[site == UpdateSite::kShares ? 1 : 0] = NewestTensors(folder);
  }
  EXPECT_EQ(saved[0].size(), 2u);
  EXPECT_EQ(saved[1], saved[0]);
}

// Without its group, rank 0 has but its share, and must not save it as the whole.
TEST(ShardingStopTest, ARankAloneSavesNothing) {
  api::TrainingSpec training = ShardedTraining();
  const TempDirectory folder;
  const Group group{.training = training, .folder = &folder};
  LocalRendezvousHub hub(2);
  OnEachRank(2, [&](int index) {
    const auto store = group.StoreOf(index, 1);
    const auto rank = group.MakeRank(hub, index, store.get());
    rank->faults.before = DiesInStep(4);
    EXPECT_EQ(rank->RunOnce().end, LoopEnd::kGenerationOver);
    if (index != 0) return;
    const LoopOutcome alone = rank->loop.SaveAlone();
    EXPECT_EQ(alone.end, LoopEnd::kStopped);
    EXPECT_THAT(std::string(alone.reason.message()),
                ::testing::HasSubstr("a checkpoint needs all shares of the optimizer's state"));
    EXPECT_FALSE(*store->Newest());
  });
}

TEST(IsWholeInMemoryTest, EveryMemberHasItsShareOfTheSameStep) {
  const auto of = [](const std::vector<std::int64_t>& steps) {
    Membership membership;
    for (const std::int64_t step : steps) membership.members.push_back({.step = step});
    return IsWholeInMemory(membership, 10);
  };
  EXPECT_TRUE(of({7, 7, 7}));
  EXPECT_TRUE(of({0, 0}));
  EXPECT_FALSE(of({7, 7, -1}));
  EXPECT_FALSE(of({-1, -1}));
  EXPECT_FALSE(of({7, 8}));
  EXPECT_FALSE(of({11, 11})) << "of a longer run";
}

}  // namespace
}  // namespace lockstep::train
