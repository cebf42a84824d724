// A stop whose checkpoint cannot be saved, where no rank has all that the checkpoint holds.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fault_file_system.h"
#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kStopsAt = 7;

// Each of two processes has a share of the optimizer's state, or a stage of the model.
struct Divided {
  std::string name;
  RankPlace place;
};
void PrintTo(const Divided& divided, std::ostream* out) {
  *out << divided.name;
}

class UnsavedStateTest : public ::testing::TestWithParam<Divided> {
 protected:
  std::unique_ptr<Rank> MakeRank(int index, CheckpointStore* store = nullptr) {
    return std::make_unique<Rank>(SmallTraining(), 2, hub_, index, nullptr, "reference", store,
                                  GetParam().place);
  }
  std::unique_ptr<CheckpointStore> OpenFolder() {
    return *CheckpointStore::Open(files_, "/checkpoints", 3, {});
  }
  // If `is_asked`, the rank is asked to stop in step kStopsAt, and the disk is full by then.
  LoopOutcome RunUntilStop(Rank& rank, bool is_asked) {
    rank.faults.before = [&, begun = 0](StrategyFaults::At at) mutable {
      if (at == StrategyFaults::At::kStep && ++begun == kStopsAt && is_asked) {
        files_.FillDiskInOperation(1, /*stays_full=*/true);
        rank.rendezvous.asked_to_stop = true;
      }
      return absl::OkStatus();
    };
    LoopOutcome outcome = rank.RunOnce();
    rank.faults.before = [](StrategyFaults::At) { return absl::OkStatus(); };
    EXPECT_EQ(outcome.end, LoopEnd::kStopped) << outcome.reason;
    return outcome;
  }
  // Returns the parameters of each rank after a run that nothing has disturbed.
  std::vector<std::vector<float>> Undisturbed() {
    LocalRendezvousHub hub(2);
    std::vector<std::vector<float>> parameters(2);
    OnBoth([&](int index) {
      Rank rank(SmallTraining(), 2, hub, index, nullptr, "reference", nullptr, GetParam().place);
      EXPECT_TRUE(rank.Train());
      parameters[static_cast<std::size_t>(index)] = rank.Parameters();
    });
    return parameters;
  }
  static void OnBoth(const std::function<void(int index)>& run) {
    std::jthread other([&] { run(1); });
    run(0);
  }

  FaultFileSystem files_;
  LocalRendezvousHub hub_{2};
};
INSTANTIATE_TEST_SUITE_P(Divisions, UnsavedStateTest,
                         ::testing::Values(Divided{"Sharding", {.site = UpdateSite::kShares}},
                                           Divided{"Stages", {.stages = 2}}),
                         [](const auto& divided) { return divided.param.name; });

// Rank 0 has gathered all of the state for the save, and gives it to the successor.
TEST_P(UnsavedStateTest, TheSuccessorOfAPodThatHasLeftGoesOnAtTheSameStep) {
  std::vector<std::vector<float>> parameters(2);
  OnBoth([&](int index) {
    const auto store = index == 0 ? OpenFolder() : nullptr;
    auto rank = MakeRank(index, store.get());
    const LoopOutcome stopped = RunUntilStop(*rank, /*is_asked=*/index == 1);
    EXPECT_EQ(stopped.reason.ok(), index == 1) << stopped.reason;
    const std::int64_t step = rank->loop.state.step;
    EXPECT_GE(step, kStopsAt);
    if (index == 1) rank = MakeRank(index);
    rank->faults.before = [&, has_stepped = false](StrategyFaults::At at) mutable {
      if (at != StrategyFaults::At::kStep || has_stepped) return absl::OkStatus();
      has_stepped = true;
      EXPECT_EQ(rank->loop.state.step, step) << "rank " << index << " goes on there";
      if (index == 0) {
        EXPECT_EQ(rank->saver->UnsavedStep(), -1) << "it takes memory";
        files_.Reboot(FaultFileSystem::kKeepAll);  // there is room again
      }
      return absl::OkStatus();
    };
    EXPECT_TRUE(rank->Train());
    parameters[static_cast<std::size_t>(index)] = rank->Parameters();
    EXPECT_EQ(rank->loop.state.ledger.lost_total(), 0);
    EXPECT_EQ(rank->loop.state.ledger.duplicated_total(), 0);
    if (index == 0) {
      EXPECT_EQ(rank->saver->outcome().last_saved_step, 20);
    }
  });
  EXPECT_EQ(parameters, Undisturbed());
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
    files_.Reboot(FaultFileSystem::kKeepAll);
    const LoopOutcome saved = rank->loop.SaveAlone();
    EXPECT_TRUE(saved.reason.ok()) << saved.reason;
    const auto newest = store->Newest();
    ASSERT_TRUE(newest.ok() && *newest);
    EXPECT_EQ((*newest)->step, rank->loop.state.step);
  });
}

}  // namespace
}  // namespace lockstep::train
