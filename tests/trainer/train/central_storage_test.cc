// The strategy CentralStorage: rank 0 holds the parameters and the optimizer's state, and makes the
// updates. It computes the bits of Mirrored, with less memory.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/train/rank.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {
namespace {

using At = StrategyFaults::At;

enum class Kind { kMirrored, kCentral };

UpdateSite SiteOf(Kind kind, int rank) {
  if (kind == Kind::kMirrored) return UpdateSite::kEveryRank;
  return rank == 0 ? UpdateSite::kThisRank : UpdateSite::kRankZero;
}

// How the controller's parameters reach the others: in place, by a copy through the host's memory
// or a socket, or from a device with a queue, through the host or by NCCL.
struct Road {
  std::string backend = "reference";
  bool allow_shm = true;
};
const std::vector<Road> kRoads = {
    {}, {.allow_shm = false}, {.backend = "async-reference"}, {.backend = kOwnGpus}};
void PrintTo(const Road& road, std::ostream* out) {
  *out << road.backend << (road.allow_shm ? "" : " over sockets");
}

// A process that is lost as it begins its n-th operation of a kind, counted from 0.
struct ReplicaLoss {
  int rank = -1;
  At at = At::kStep;
  int n = 0;
};

struct Outcome {
  std::vector<float> parameters, state;
  RunState run;
};

// Two ranks that train to the end. `loss`: one of them loses its process and memory on the way, and
// gets another. `folder` is that of rank 0's checkpoints; null: none.
struct Pair {
  api::TrainingSpec training;
  Kind kind = Kind::kCentral;
  Road road = {};
  ReplicaLoss loss = {};
  const TempDirectory* folder = nullptr;

  std::array<Outcome, 2> Train() const {
    LocalRendezvousHub hub(2);
    std::array<Outcome, 2> outcomes;
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
          if (rank == loss.rank) Lose(hub);
          const auto store = StoreOf(rank, 2);
          Rank last = MakeRank(hub, rank, store.get());
          EXPECT_TRUE(last.Train());
          outcomes.at(static_cast<std::size_t>(rank)) = {last.Parameters(), last.State(),
                                                         last.loop.state};
        });
      }
    }
    return outcomes;
  }

  std::unique_ptr<CheckpointStore> StoreOf(int rank, std::int64_t started) const {
    return folder != nullptr && rank == 0 ? OpenStore(*folder, started) : nullptr;
  }
  Rank MakeRank(LocalRendezvousHub& hub, int rank, CheckpointStore* store) const {
    return Rank(training, 2, hub, rank, nullptr, road.backend, store,
                {.site = SiteOf(kind, rank), .allow_shm = road.allow_shm});
  }

 private:
  void Lose(LocalRendezvousHub& hub) const {
    const auto store = StoreOf(loss.rank, 1);
    Rank doomed = MakeRank(hub, loss.rank, store.get());
    doomed.faults.before = [&, begun = 0](At at) mutable {
      if (at != loss.at || begun++ != loss.n) return absl::OkStatus();
      hub.EndGeneration("killed by the test");
      return absl::UnavailableError("killed");
    };
    EXPECT_FALSE(doomed.Train(/*die_with_generation=*/true));
  }
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

Outcome Mirrored(const api::TrainingSpec& training, const Road& road = {}) {
  return Pair{.training = training, .kind = Kind::kMirrored, .road = road}.Train()[0];
}

void ExpectOutcome(const std::array<Outcome, 2>& found, const Outcome& expected) {
  EXPECT_EQ(found[0].state, expected.state);
  EXPECT_EQ(found[1].parameters, expected.parameters);
  for (const Outcome& rank : found) EXPECT_EQ(rank.run, expected.run);
  EXPECT_EQ(found[0].run.ledger.lost_total() + found[0].run.ledger.duplicated_total(), 0);
}

class CentralStorageTest : public ::testing::TestWithParam<Road> {};

TEST_P(CentralStorageTest, ComputesTheBitsOfMirrored) {
  ExpectOutcome(Pair{.training = FullTraining(), .road = GetParam()}.Train(),
                Mirrored(FullTraining(), GetParam()));
}

// The others have no average of their own, and evaluate that of the controller.
TEST_P(CentralStorageTest, ComputesTheBitsOfMirroredWithAnAverage) {
  api::TrainingSpec training = FullTraining();
  training.ema = api::EmaSpec{.decay = 0.75};
  ExpectOutcome(Pair{.training = training, .road = GetParam()}.Train(),
                Mirrored(training, GetParam()));
}

TEST_P(CentralStorageTest, ComputesTheBitsOfMirroredWithALossScale) {
  api::TrainingSpec training = SmallTraining();
  training.precision = api::Precision::kFloat16;
  training.max_skipped_steps = 20;
  ExpectOutcome(Pair{.training = training, .road = GetParam()}.Train(),
                Mirrored(training, GetParam()));
}

TEST_P(CentralStorageTest, OnlyTheControllerHoldsTheOptimizersState) {
  const auto session_at = [&](UpdateSite site) {
    return *Session::Create({.training = SmallTraining(),
                             .world = 2,
                             .backend = BackendOf(GetParam().backend),
                             .update_site = site});
  };
  const auto controller = session_at(UpdateSite::kThisRank);
  const auto other = session_at(UpdateSite::kRankZero);
  const std::size_t parameters = controller->model().parameters().size_bytes();
  EXPECT_EQ(controller->optimizer().slots(), 2) << "Adam's";
  EXPECT_EQ(other->optimizer().slots(), 0);
  EXPECT_GE(controller->optimizer().MemoryBytes(), 2 * parameters);
  EXPECT_LT(other->optimizer().MemoryBytes(), parameters);
}

TEST_P(CentralStorageTest, TrainingGoesOnFromTheControllersMemoryWithoutAReplica) {
  const Outcome whole = Mirrored(FullTraining(), GetParam());
  for (const int step : {0, 5, 12, 19}) {
    SCOPED_TRACE(step);
    const Pair pair{.training = FullTraining(), .road = GetParam(), .loss = {1, At::kStep, step}};
    ExpectOutcome(pair.Train(), whole);
  }
}

// The controller has updated, but the replica is lost before it knows: the update counts, once.
TEST_P(CentralStorageTest, AnUpdateThatAReplicaDoesNotSeeCountsOnce) {
  const Outcome whole = Mirrored(FullTraining(), GetParam());
  // 22: after the last step. Four epochs have five steps each, and then all ranks say that they
  // have the parameters.
  for (const int operation : {0, 7, 22, 23}) {
    SCOPED_TRACE(operation);
    const Pair pair{
        .training = FullTraining(), .road = GetParam(), .loss = {1, At::kParameters, operation}};
    ExpectOutcome(pair.Train(), whole);
  }
}

// The others cannot give a new controller what it needs: all go back to the checkpoint, or to the
// start.
TEST_P(CentralStorageTest, ALostControllerGoesOnFromItsCheckpointBitForBit) {
  const Outcome whole = Mirrored(FullTraining(), GetParam());
  api::TrainingSpec training = FullTraining();
  training.checkpoint.every_steps = 3;
  for (const At at : {At::kStep, At::kParameters}) {
    for (const int step : {2, 7, 19}) {
      SCOPED_TRACE(step);
      const TempDirectory folder;
      const Pair pair{
          .training = training, .road = GetParam(), .loss = {0, at, step}, .folder = &folder};
      ExpectOutcome(pair.Train(), whole);
    }
  }
}

TEST_P(CentralStorageTest, ARunThatStopsEarlyEndsWhereThatOfMirroredDoes) {
  api::TrainingSpec training = StoppingTraining(3);
  training.checkpoint.every_steps = 3;
  const Outcome whole = Mirrored(training, GetParam());
  EXPECT_EQ(whole.run.step, 15);
  ExpectOutcome(Pair{.training = training, .road = GetParam()}.Train(), whole);
  const TempDirectory folder;  // the counter is in the checkpoint of step 9
  const Pair loses_controller{
      .training = training, .road = GetParam(), .loss = {0, At::kStep, 10}, .folder = &folder};
  ExpectOutcome(loses_controller.Train(), whole);
}

// Only the controller keeps it, and finds it again in its checkpoint.
TEST_P(CentralStorageTest, TheControllerExportsTheBestModel) {
  const TempDirectory exports;
  api::TrainingSpec best = SmallTraining();
  best.epochs = 1;
  best.checkpoint.export_to = exports.At("best.safetensors");
  Mirrored(best, GetParam());
  api::TrainingSpec training = RestoringTraining(3);
  training.checkpoint.every_steps = 3;
  training.checkpoint.export_to = exports.At("model.safetensors");
  for (const int lost : {-1, 0, 1}) {
    SCOPED_TRACE(lost);
    const TempDirectory folder;
    const Pair pair{
        .training = training, .road = GetParam(), .loss = {lost, At::kStep, 10}, .folder = &folder};
    EXPECT_EQ(pair.Train()[0].run.best.step, 5);
    EXPECT_EQ(ReadTextFile(training.checkpoint.export_to), ReadTextFile(best.checkpoint.export_to));
    std::filesystem::remove(training.checkpoint.export_to);
  }
}

TEST_P(CentralStorageTest, ALostControllerWithoutCheckpointsBeginsAgain) {
  const Pair pair{.training = FullTraining(), .road = GetParam(), .loss = {0, At::kStep, 7}};
  ExpectOutcome(pair.Train(), Mirrored(FullTraining(), GetParam()));
}

INSTANTIATE_TEST_SUITE_P(OnEveryRoad, CentralStorageTest, ::testing::ValuesIn(kRoads));

// Runs on each road on which rank 0 sends its parameters.
class CentralStorageBroadcastTest : public ::testing::TestWithParam<Road> {};

// Leaves what no parameters are where the rank receives those of rank 0.
void SpoilReceived(Rank& rank) {
  const std::vector<float> nothing(rank.session->model().parameters().size(), NAN);
  const std::optional<DeviceSums> sums = rank.session->device_sums();
  rank.session->backend().Upload(nothing.data(),
                                 sums ? sums->memory : rank.session->buffer().data(),
                                 nothing.size() * sizeof(float));
}

// A broadcast fails where the parameters are about to be looked at, while the ranks can still sum
// on their hosts: neither the evaluation nor the check of what is saved may meet what it has left.
TEST_P(CentralStorageBroadcastTest, NothingLooksAtParametersThatDidNotArrive) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 3;
  const Outcome whole = Mirrored(training, GetParam());
  for (const bool is_known_late : {false, true}) {
    for (const int step : {3, 5, 20}) {
      SCOPED_TRACE(::testing::Message() << step << (is_known_late ? ", known late" : ""));
      const Pair pair{.training = training, .road = GetParam()};
      LocalRendezvousHub hub(2);
      std::array<Outcome, 2> outcomes;
      {
        std::vector<std::jthread> threads;
        for (int index = 0; index < 2; ++index) {
          threads.emplace_back([&, index] {
            Rank rank = pair.MakeRank(hub, index, nullptr);
            rank.faults.hides_lost_parameters = is_known_late;
            bool has_failed = index == 0;
            rank.faults.after = [&, begun = 0](At at) mutable {
              if (at == At::kStep) ++begun;
              const bool fails = at == At::kParameters && begun == step;
              if (!fails || std::exchange(has_failed, true)) return absl::OkStatus();
              SpoilReceived(rank);
              return absl::UnavailableError("the parameters were lost on the way");
            };
            for (bool is_done = false; !is_done;) {
              const LoopOutcome outcome = rank.RunOnce();
              EXPECT_NE(outcome.end, LoopEnd::kDiverged) << outcome.reason;
              is_done = outcome.end == LoopEnd::kDone && rank.rendezvous.Finish().ok();
              EXPECT_TRUE(is_done || rank.loop.state.evaluated_step < step);
            }
            EXPECT_TRUE(has_failed);
            outcomes.at(static_cast<std::size_t>(index)) = {rank.Parameters(), rank.State(),
                                                            rank.loop.state};
          });
        }
      }
      ExpectOutcome(outcomes, whole);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OnEveryRoad, CentralStorageBroadcastTest,
                         ::testing::Values(kRoads[1], kRoads[2], kRoads[3]));

// Half a run under one strategy, the rest under the other.
TEST(CentralStorageCheckpointTest, EitherStrategyGoesOnFromACheckpointOfTheOther) {
  const Outcome whole = Mirrored(FullTraining());
  api::TrainingSpec training = FullTraining();
  training.checkpoint.every_steps = 10;
  for (const Kind first : {Kind::kMirrored, Kind::kCentral}) {
    const TempDirectory folder;
    {
      const Pair half{.training = training, .kind = first, .folder = &folder};
      LocalRendezvousHub hub(2);
      std::vector<std::jthread> threads;
      for (int index = 0; index < 2; ++index) {
        threads.emplace_back([&, index] {
          const auto store = half.StoreOf(index, 1);
          Rank rank = half.MakeRank(hub, index, store.get());
          rank.faults.before = DiesInStep(10);
          EXPECT_EQ(rank.RunOnce().end, LoopEnd::kGenerationOver);
        });
      }
    }
    const Kind second = first == Kind::kMirrored ? Kind::kCentral : Kind::kMirrored;
    const Pair rest{.training = training, .kind = second, .folder = &folder};
    ExpectOutcome(rest.Train(), whole);
  }
}

TEST(CentralStorageMemoryTest, RanksOfAHostReadTheControllersParametersInPlace) {
  for (const bool allow_shm : {true, false}) {
    const Pair pair{.training = SmallTraining(), .road = {.allow_shm = allow_shm}};
    LocalRendezvousHub hub(2);
    std::vector<std::jthread> threads;
    for (int index = 0; index < 2; ++index) {
      threads.emplace_back([&, index] {
        Rank rank = pair.MakeRank(hub, index, nullptr);
        EXPECT_FALSE(rank.session->shares_parameters());
        EXPECT_TRUE(rank.Train());
        EXPECT_EQ(rank.session->shares_parameters(), allow_shm);
      });
    }
  }
}

}  // namespace
}  // namespace lockstep::train
