// A stop whose checkpoint cannot be saved, where no rank has all that the checkpoint holds.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fault_file_system.h"
#include "tests/trainer/train/rank.h"
#include "trainer/train/generations.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kStopsAt = 7;

// A model of one tensor, of which each rank updates a part.
api::TrainingSpec OneTensor() {
  api::TrainingSpec training = SmallTraining();
  training.model.layers = api::Json::array(
      {{{"type", "Flatten"}}, {{"type", "Dense"}, {"units", 3}, {"useBias", false}}});
  return training;
}

// The model of the best evaluation is that of step 5.
api::TrainingSpec WithBest() {
  return RestoringTraining();
}

// Each of two processes has a share of the optimizer's state, or a stage of the model.
struct Divided {
  std::string name;
  RankPlace place;
  api::TrainingSpec (*training)() = &SmallTraining;
  bool has_best() const { return training == &WithBest; }
};
void PrintTo(const Divided& divided, std::ostream* out) {
  *out << divided.name;
}

// Counts the operations of a rank before its first step, by which it gives or gets the state. The
// one that is `fails_at`, counted from 1, fails.
struct HandOver {
  int fails_at = 0;
  int operations = 0;
  bool has_stepped = false;
  absl::Status operator()(StrategyFaults::At at) {
    has_stepped = has_stepped || at == StrategyFaults::At::kStep;
    if (has_stepped || ++operations != fails_at) return absl::OkStatus();
    return absl::UnavailableError("the connection is lost");
  }
};

class UnsavedStateTest : public ::testing::TestWithParam<Divided> {
 protected:
  // What a rank has at the end of a run.
  struct Result {
    std::vector<float> parameters;
    std::vector<float> best;
    bool operator==(const Result&) const = default;
  };
  static Result ResultOf(Rank& rank) {
    Result result{.parameters = rank.Parameters(), .best = {}};
    for (const NamedTensor& tensor : rank.loop.best.tensors) {
      result.best.insert(result.best.end(), tensor.data.begin(), tensor.data.end());
    }
    EXPECT_EQ(result.best.empty(), !GetParam().has_best());
    return result;
  }
  void SetUp() override { Reset(); }
  void Reset() {
    files_ = std::make_unique<FaultFileSystem>();
    hub_ = std::make_unique<LocalRendezvousHub>(2);
  }
  std::unique_ptr<Rank> MakeRank(int index, CheckpointStore* store = nullptr,
                                 LocalRendezvousHub* hub = nullptr) {
    return std::make_unique<Rank>(GetParam().training(), 2, hub == nullptr ? *hub_ : *hub, index,
                                  nullptr, "reference", store, GetParam().place);
  }
  std::unique_ptr<CheckpointStore> OpenFolder() {
    return *CheckpointStore::Open(*files_, "/checkpoints", 3, {});
  }
  // If `is_asked`, the rank is asked to stop in step kStopsAt, and the disk is full by then.
  LoopOutcome RunUntilStop(Rank& rank, bool is_asked, std::int64_t stops_at = kStopsAt,
                           bool is_full = true) {
    rank.faults.before = [&, is_asked, stops_at, is_full,
                          begun = 0](StrategyFaults::At at) mutable {
      if (at == StrategyFaults::At::kStep && ++begun == stops_at && is_asked) {
        if (is_full) files_->FillDiskInOperation(1, /*stays_full=*/true);
        rank.rendezvous.asked_to_stop = true;
      }
      return absl::OkStatus();
    };
    LoopOutcome outcome = rank.RunOnce();
    rank.faults.before = [](StrategyFaults::At) { return absl::OkStatus(); };
    EXPECT_EQ(outcome.end, LoopEnd::kStopped) << outcome.reason;
    EXPECT_GE(rank.loop.state.step, kStopsAt);
    return outcome;
  }
  // In which operation the first successor dies; and which one has succeeded, and a rank takes it
  // for failed. 0: none.
  struct Trouble {
    int dies_at = 0;
    int fails_at = 0;
    int fails_on = 0;
  };
  struct GoneOn {
    std::vector<Result> results;
    int operations = 0;  // of the last successor
  };
  // Rank 1 is asked to stop, and what rank 0 could not save is given to its successor. The disk has
  // room again once the group goes on.
  GoneOn StopAndGoOn(const Trouble& trouble) {
    Reset();
    GoneOn gone_on{.results = std::vector<Result>(2)};
    OnBoth([&](int index) {
      const auto store = index == 0 ? OpenFolder() : nullptr;
      auto rank = MakeRank(index, store.get());
      const LoopOutcome stopped = RunUntilStop(*rank, /*is_asked=*/index == 1);
      EXPECT_EQ(stopped.reason.ok(), index == 1) << stopped.reason;
      const std::int64_t step = rank->loop.state.step;
      if (index == 1) rank = MakeRank(index);
      if (index == 1 && trouble.dies_at > 0) {
        rank->faults.before = HandOver{.fails_at = trouble.dies_at};
        EXPECT_EQ(rank->RunOnce().end, LoopEnd::kGenerationOver);
        rank = MakeRank(index);
      }
      if (index == trouble.fails_on) rank->faults.after = HandOver{.fails_at = trouble.fails_at};
      rank->faults.before = [&, hand_over = HandOver()](StrategyFaults::At at) mutable {
        const bool is_first = at == StrategyFaults::At::kStep && !hand_over.has_stepped;
        const absl::Status status = hand_over(at);
        if (index == 1) gone_on.operations = hand_over.operations;
        if (!is_first) return status;
        EXPECT_EQ(rank->loop.state.step, step) << "rank " << index << " goes on there";
        if (index == 0) {
          EXPECT_EQ(rank->saver->UnsavedStep(), -1) << "it takes memory";
          files_->Reboot(FaultFileSystem::kKeepAll);
        }
        return status;
      };
      EXPECT_TRUE(rank->Train());
      EXPECT_EQ(rank->loop.state.ledger.lost_total(), 0);
      EXPECT_EQ(rank->loop.state.ledger.duplicated_total(), 0);
      if (index == 0) {
        EXPECT_EQ(rank->saver->outcome().last_saved_step, rank->loop.state.step);
      }
      gone_on.results[static_cast<std::size_t>(index)] = ResultOf(*rank);
    });
    return gone_on;
  }
  // Returns the results of both ranks after a run that nothing has disturbed.
  std::vector<Result> Undisturbed() {
    Reset();
    std::vector<Result> results(2);
    OnBoth([&](int index) {
      const auto rank = MakeRank(index);
      EXPECT_TRUE(rank->Train());
      results[static_cast<std::size_t>(index)] = ResultOf(*rank);
    });
    return results;
  }
  static void OnBoth(const std::function<void(int index)>& run) {
    std::jthread other([&] { run(1); });
    run(0);
  }

  std::unique_ptr<FaultFileSystem> files_;
  std::unique_ptr<LocalRendezvousHub> hub_;
};
INSTANTIATE_TEST_SUITE_P(
    Divisions, UnsavedStateTest,
    ::testing::Values(Divided{"Sharding", {.site = UpdateSite::kShares}},
                      Divided{"Stages", {.stages = 2}},
                      Divided{"OneTensor", {.site = UpdateSite::kShares}, &OneTensor},
                      Divided{"ShardingWithBest", {.site = UpdateSite::kShares}, &WithBest},
                      Divided{"StagesWithBest", {.stages = 2}, &WithBest}),
    [](const auto& divided) { return divided.param.name; });

// Rank 0 has gathered all of the state for the save, and gives it to the successor.
TEST_P(UnsavedStateTest, TheSuccessorOfAPodThatHasLeftGoesOnAtTheSameStep) {
  EXPECT_EQ(StopAndGoOn({}).results, Undisturbed());
}

TEST_P(UnsavedStateTest, SoDoesTheSuccessorOfOneThatDiesWhileItGetsTheState) {
  const std::vector<Result> undisturbed = Undisturbed();
  const int operations = StopAndGoOn({}).operations;
  ASSERT_GE(operations, 2);
  for (int n = 1; n <= operations; ++n) {
    SCOPED_TRACE(n);
    EXPECT_EQ(StopAndGoOn({.dies_at = n}).results, undisturbed);
  }
}

// Then the successor may have all of it, and rank 0 lack its own share.
TEST_P(UnsavedStateTest, SoDoesAGroupWhoseFirstProcessTakesTheHandOverForFailed) {
  const std::vector<Result> undisturbed = Undisturbed();
  const int operations = StopAndGoOn({}).operations;
  for (int n = 1; n <= operations; ++n) {
    SCOPED_TRACE(n);
    EXPECT_EQ(StopAndGoOn({.fails_at = n, .fails_on = 0}).results, undisturbed);
  }
}

// Then rank 0 may have sent all, and nobody else has it.
TEST_P(UnsavedStateTest, SoDoesASuccessorThatTakesTheHandOverForFailed) {
  const std::vector<Result> undisturbed = Undisturbed();
  const int operations = StopAndGoOn({}).operations;
  for (int n = 1; n <= operations; ++n) {
    SCOPED_TRACE(n);
    EXPECT_EQ(StopAndGoOn({.fails_at = n, .fails_on = 1}).results, undisturbed);
  }
}

// The folder could not be claimed before, and another job has trained further there meanwhile.
TEST_P(UnsavedStateTest, ANewerCheckpointThatTheClaimFindsGoesFirst) {
  files_->FillDiskInOperation(2, /*stays_full=*/true);
  std::vector<Result> results(2);
  OnBoth([&](int index) {
    const auto store = index == 0 ? OpenFolder() : nullptr;
    auto rank = MakeRank(index, store.get());
    RunUntilStop(*rank, /*is_asked=*/index == 1);
    if (index == 1) rank = MakeRank(index);
    if (index == 0) {
      EXPECT_GE(rank->saver->UnsavedStep(), kStopsAt);
      files_->Reboot(FaultFileSystem::kKeepAll);
      LocalRendezvousHub hub(2);
      OnBoth([&](int of_other) {
        const auto folder = of_other == 0 ? OpenFolder() : nullptr;
        EXPECT_TRUE(MakeRank(of_other, folder.get(), &hub)->Train());
      });
    }
    rank->faults.before = [&](StrategyFaults::At at) {
      EXPECT_NE(at, StrategyFaults::At::kStep) << "the other job has done all";
      return absl::OkStatus();
    };
    EXPECT_TRUE(rank->Train());
    results[static_cast<std::size_t>(index)] = ResultOf(*rank);
  });
  EXPECT_EQ(results, Undisturbed());
}

// As RunGenerations does before it exits, when the group has left.
TEST_P(UnsavedStateTest, ALeadingPodThatLeavesTriesOnceMoreAlone) {
  OnBoth([&](int index) {
    const auto store = index == 0 ? OpenFolder() : nullptr;
    const auto rank = MakeRank(index, store.get());
    const LoopOutcome stopped = RunUntilStop(*rank, /*is_asked=*/index == 0);
    if (index != 0) return;
    EXPECT_TRUE(absl::IsResourceExhausted(stopped.reason)) << stopped.reason;
    const LoopOutcome full = rank->loop.SaveAlone();
    EXPECT_TRUE(absl::IsResourceExhausted(full.reason)) << full.reason;
    files_->Reboot(FaultFileSystem::kKeepAll);
    const LoopOutcome saved = rank->loop.SaveAlone();
    EXPECT_TRUE(saved.reason.ok()) << saved.reason;
    const auto newest = store->Newest();
    ASSERT_TRUE(newest.ok() && *newest);
    EXPECT_EQ((*newest)->step, rank->loop.state.step);
  });
}

TEST_P(UnsavedStateTest, SoDoesOneWhoseSuccessorHasDiedWhileItGotTheState) {
  for (int n = 1, operations = StopAndGoOn({}).operations; n <= operations; ++n) {
    SCOPED_TRACE(n);
    Reset();
    OnBoth([&](int index) {
      const auto store = index == 0 ? OpenFolder() : nullptr;
      auto rank = MakeRank(index, store.get());
      RunUntilStop(*rank, /*is_asked=*/index == 1);
      const std::int64_t step = rank->loop.state.step;
      if (index == 1) {
        rank = MakeRank(index);
        rank->faults.before = HandOver{.fails_at = n};
      }
      EXPECT_EQ(rank->RunOnce().end, LoopEnd::kGenerationOver);
      hub_->EndGeneration("the successor has died");
      if (index != 0) return;
      EXPECT_EQ(rank->loop.StepInMemory(), step);
      const LoopOutcome full = rank->loop.SaveAlone();
      EXPECT_TRUE(absl::IsResourceExhausted(full.reason)) << full.reason;
      files_->Reboot(FaultFileSystem::kKeepAll);
      const LoopOutcome saved = rank->loop.SaveAlone();
      EXPECT_TRUE(saved.reason.ok()) << saved.reason;
      const auto newest = store->Newest();
      ASSERT_TRUE(newest.ok() && *newest);
      EXPECT_EQ((*newest)->step, step);
    });
  }
}

// Then the pod is asked to stop once more while it waits for the others to finish.
TEST_P(UnsavedStateTest, AnEvaluationAloneThatCannotBeSavedIsNoStateThatALeavingPodMustSave) {
  const std::int64_t last = GetParam().has_best() ? 15 : 20;
  OnBoth([&](int index) {
    const auto store = index == 0 ? OpenFolder() : nullptr;
    auto rank = MakeRank(index, store.get());
    EXPECT_TRUE(RunUntilStop(*rank, /*is_asked=*/index == 1, last, /*is_full=*/false).reason.ok());
    EXPECT_EQ(rank->loop.state.step, last);
    if (index == 0) files_->FillDiskInOperation(1, /*stays_full=*/true);
    if (index == 1) rank = MakeRank(index);
    EXPECT_EQ(rank->RunOnce().end, LoopEnd::kDone);
    if (index != 0) return;
    EXPECT_EQ(rank->saver->outcome().failures, 1);
    const LoopOutcome alone = rank->loop.SaveAlone();
    EXPECT_TRUE(alone.reason.ok()) << alone.reason;
  });
}

// A folder that cannot be claimed until all tries to go on are used up; then there is room again.
class UnclaimableStore final : public CheckpointStore {
 public:
  UnclaimableStore(CheckpointStore& inner, FaultFileSystem& files, int tries)
      : inner_(inner), files_(files), tries_(tries) {}
  absl::StatusOr<bool> Claim() override {
    if (!fails) return inner_.Claim();
    if (--tries_ == 0) files_.Reboot(FaultFileSystem::kKeepAll);
    return absl::UnavailableError("the folder cannot be listed");
  }
  bool IsClaimed() const override { return inner_.IsClaimed(); }
  absl::StatusOr<std::string> Save(const Snapshot& snapshot) override {
    return inner_.Save(snapshot);
  }
  absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string& model_hash) override {
    return inner_.LoadLatest(model_hash);
  }
  absl::StatusOr<std::optional<CheckpointAge>> Newest() override { return inner_.Newest(); }

  bool fails = false;

 private:
  CheckpointStore& inner_;
  FaultFileSystem& files_;
  int tries_;
};

TEST_P(UnsavedStateTest, AProcessThatGivesUpBecauseOfItsStorageTriesOnceMoreToSaveIt) {
  constexpr RestartBudgetOptions kTwoMore = {.restarts = 2, .first_delay = {}, .longest_delay = {}};
  OnBoth([&](int index) {
    const auto folder = index == 0 ? OpenFolder() : nullptr;
    std::optional<UnclaimableStore> store;
    if (index == 0) store.emplace(*folder, *files_, 1 + kTwoMore.restarts);
    auto rank = MakeRank(index, index == 0 ? &*store : nullptr);
    RunUntilStop(*rank, /*is_asked=*/index == 1);
    const std::int64_t step = rank->loop.state.step;
    if (index == 1) rank = MakeRank(index);
    if (index == 0) store->fails = true;
    const int code = RunGenerations(rank->loop, kTwoMore);
    if (index != 0) return;
    EXPECT_EQ(code, api::kExitStorage);
    const auto newest = folder->Newest();
    ASSERT_TRUE(newest.ok() && *newest);
    EXPECT_EQ((*newest)->step, step);
  });
}

}  // namespace
}  // namespace lockstep::train
