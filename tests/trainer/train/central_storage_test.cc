// The strategy CentralStorage: rank 0 holds the optimizer's state and makes the updates. It
// computes the bits of Mirrored, with less memory on the other ranks.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/train/rank.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {
namespace {

using At = StrategyFaults::At;

struct Outcome {
  std::vector<float> parameters, state;
  RunState run;
};

enum class Kind { kMirrored, kCentral };

UpdateSite SiteOf(Kind kind, int rank) {
  if (kind == Kind::kMirrored) return UpdateSite::kEveryRank;
  return rank == 0 ? UpdateSite::kThisRank : UpdateSite::kRankZero;
}

// A job of two ranks. Those of `lives` are called for each process of rank 0 and of rank 1, one
// after the other, before it trains; what they return tells whether the process is to be lost with
// its first generation.
struct Pair {
  api::TrainingSpec training;
  Kind kind = Kind::kCentral;
  std::string backend = "reference";
  const TempDirectory* folder = nullptr;  // of checkpoints
  int victim = -1;                        // the rank that is lost once
  std::function<void(Rank&, LocalRendezvousHub&)> doom = [](Rank&, LocalRendezvousHub&) {};

  std::vector<Outcome> Train() const {
    LocalRendezvousHub hub(2);
    std::vector<Outcome> outcomes(2);
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
          if (rank == victim) {
            const Process doomed(*this, hub, rank, 1);
            doom(*doomed.rank, hub);
            EXPECT_FALSE(doomed.rank->Train(/*die_with_generation=*/true));
          }
          const Process process(*this, hub, rank, 2);
          EXPECT_TRUE(process.rank->Train());
          outcomes[static_cast<std::size_t>(rank)] = {
              process.rank->Parameters(), process.rank->State(), process.rank->loop.state};
        });
      }
    }
    return outcomes;
  }

 private:
  struct Process {
    Process(const Pair& pair, LocalRendezvousHub& hub, int index, std::int64_t started)
        : store(pair.folder != nullptr && index == 0 ? OpenStore(*pair.folder, started) : nullptr),
          rank(std::make_unique<Rank>(pair.training, 2, hub, index, nullptr, pair.backend,
                                      store.get(), SiteOf(pair.kind, index))) {}
    const std::unique_ptr<CheckpointStore> store;
    const std::unique_ptr<Rank> rank;
  };
};

// With what the controller decides for all: clipping, decay, a schedule, the mean of the running
// statistics, and sums over the parts of a batch.
api::TrainingSpec FullTraining() {
  api::TrainingSpec training = SmallTraining();
  training.gradient_accumulation = 3;
  training.optimizer.global_clip_norm = 0.05;
  training.optimizer.weight_decay = 0.01;
  training.learning_rate_schedule = {.type = api::ScheduleType::kCosine, .warmup_steps = 3};
  api::Json layers = *training.model.layers;
  layers.insert(layers.begin() + 1, api::Json{{"type", "BatchNormalization"}});
  training.model.layers = std::move(layers);
  return training;
}

void ExpectOutcome(const std::vector<Outcome>& found, const Outcome& expected) {
  EXPECT_EQ(found[0].state, expected.state);
  EXPECT_EQ(found[1].parameters, expected.parameters);
  for (const Outcome& rank : found) EXPECT_EQ(rank.run, expected.run);
  EXPECT_EQ(found[0].run.ledger.lost_total() + found[0].run.ledger.duplicated_total(), 0);
}

class CentralStorageTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CentralStorageTest, ComputesTheBitsOfMirrored) {
  const std::vector<Outcome> mirrored =
      Pair{.training = FullTraining(), .kind = Kind::kMirrored}.Train();
  ExpectOutcome(Pair{.training = FullTraining(), .backend = GetParam()}.Train(), mirrored[0]);
}

TEST_P(CentralStorageTest, ComputesTheBitsOfMirroredWithALossScale) {
  api::TrainingSpec training = SmallTraining();
  training.precision = api::Precision::kFloat16;
  training.max_skipped_steps = 20;
  const std::vector<Outcome> mirrored = Pair{.training = training, .kind = Kind::kMirrored}.Train();
  ExpectOutcome(Pair{.training = training, .backend = GetParam()}.Train(), mirrored[0]);
}

TEST_P(CentralStorageTest, OnlyTheControllerHoldsTheOptimizersState) {
  const auto session_at = [&](UpdateSite site) {
    return *Session::Create(
        {.training = SmallTraining(), .world = 2, .backend = GetParam(), .update_site = site});
  };
  const auto controller = session_at(UpdateSite::kThisRank);
  const auto other = session_at(UpdateSite::kRankZero);
  const std::size_t values = controller->model().parameters().size_bytes();
  EXPECT_EQ(controller->optimizer().slots(), 2) << "Adam's";
  EXPECT_EQ(other->optimizer().slots(), 0);
  EXPECT_GE(controller->optimizer().MemoryBytes(), 2 * values);
  EXPECT_LT(other->optimizer().MemoryBytes(), values);
}

TEST_P(CentralStorageTest, TrainingGoesOnFromTheControllersMemoryWithoutAReplica) {
  const std::vector<Outcome> whole = Pair{.training = FullTraining()}.Train();
  for (const int killed_at : {0, 5, 12, 19}) {
    SCOPED_TRACE(killed_at);
    const Pair pair{.training = FullTraining(),
                    .backend = GetParam(),
                    .victim = 1,
                    .doom = [&](Rank& rank, LocalRendezvousHub& hub) {
                      rank.faults.before = [&, begun = 0](At at) mutable {
                        if (at != At::kStep || begun++ != killed_at) return absl::OkStatus();
                        hub.EndGeneration("killed by the test");
                        return absl::UnavailableError("killed");
                      };
                    }};
    ExpectOutcome(pair.Train(), whole[0]);
  }
}

// The controller has updated, but its values reach nobody: the update counts, once.
TEST_P(CentralStorageTest, AnUpdateWhoseValuesReachNobodyCountsOnce) {
  const std::vector<Outcome> whole = Pair{.training = FullTraining()}.Train();
  for (const int lost_at : {0, 7, 19}) {
    SCOPED_TRACE(lost_at);
    const Pair pair{.training = FullTraining(),
                    .backend = GetParam(),
                    .victim = 1,
                    .doom = [&](Rank& rank, LocalRendezvousHub& hub) {
                      rank.faults.before = [&, begun = 0](At at) mutable {
                        if (at != At::kParameters || begun++ != lost_at) return absl::OkStatus();
                        hub.EndGeneration("killed by the test");
                        return absl::UnavailableError("killed");
                      };
                    }};
    ExpectOutcome(pair.Train(), whole[0]);
  }
}

// The others cannot give a new controller what it needs: all go back to the checkpoint.
TEST_P(CentralStorageTest, ALostControllerGoesOnFromItsCheckpointBitForBit) {
  api::TrainingSpec training = FullTraining();
  const std::vector<Outcome> whole = Pair{.training = training}.Train();
  training.checkpoint.every_steps = 3;
  for (const int killed_at : {2, 7, 19}) {
    SCOPED_TRACE(killed_at);
    const TempDirectory folder;
    const Pair pair{.training = training,
                    .backend = GetParam(),
                    .folder = &folder,
                    .victim = 0,
                    .doom = [&](Rank& rank, LocalRendezvousHub& hub) {
                      rank.faults.before = [&, begun = 0](At at) mutable {
                        if (at != At::kStep || begun++ != killed_at) return absl::OkStatus();
                        hub.EndGeneration("killed by the test");
                        return absl::UnavailableError("killed");
                      };
                    }};
    ExpectOutcome(pair.Train(), whole[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(OnDevices, CentralStorageTest, ::testing::ValuesIn(kDevices));

// Half a run under one strategy, the rest under the other.
TEST(CentralStorageCheckpointTest, EitherStrategyGoesOnFromACheckpointOfTheOther) {
  const std::vector<Outcome> whole =
      Pair{.training = FullTraining(), .kind = Kind::kMirrored}.Train();
  for (const Kind first : {Kind::kMirrored, Kind::kCentral}) {
    const TempDirectory folder;
    api::TrainingSpec training = FullTraining();
    training.checkpoint.every_steps = 10;
    {
      LocalRendezvousHub hub(2);
      std::vector<std::jthread> threads;
      for (int index = 0; index < 2; ++index) {
        threads.emplace_back([&, index] {
          const auto store = index == 0 ? OpenStore(folder, 1) : nullptr;
          Rank rank(training, 2, hub, index, nullptr, "reference", store.get(),
                    SiteOf(first, index));
          rank.faults.before = DiesInStep(10);
          EXPECT_EQ(rank.RunOnce().end, LoopEnd::kGenerationOver);
        });
      }
    }
    const Kind second = first == Kind::kMirrored ? Kind::kCentral : Kind::kMirrored;
    const Pair rest{.training = training, .kind = second, .folder = &folder};
    ExpectOutcome(rest.Train(), whole[0]);
  }
}

}  // namespace
}  // namespace lockstep::train
