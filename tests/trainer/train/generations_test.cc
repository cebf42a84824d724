// A replica's whole life: which ends of a generation are tried again, for how long, and what is
// saved of them.
#include "trainer/train/generations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "base/stop_signal.h"
#include "tests/support/fault_file_system.h"
#include "tests/support/time_limit.h"
#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/train/rank.h"
#include "trainer/checkpoint/owner.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using At = StrategyFaults::At;

constexpr RestartBudgetOptions kThreeMore = {.restarts = 3,
                                             .first_delay = std::chrono::milliseconds(1),
                                             .longest_delay = std::chrono::milliseconds(2)};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// In memory; fails as often as it is told to.
class FlakyStore final : public CheckpointStore {
 public:
  absl::StatusOr<bool> Claim() override { return false; }
  bool IsClaimed() const override { return true; }
  absl::StatusOr<std::string> Save(const Snapshot& snapshot) override {
    at_save();
    const std::lock_guard lock(mutex_);
    ++saves;
    if (failing_saves-- > 0) return error;
    for (const auto& tensors : {snapshot.model, snapshot.optimizer}) {
      for (const NamedTensor& tensor : tensors)
        all_finite &=
            std::ranges::all_of(tensor.data, [](float value) { return std::isfinite(value); });
    }
    saved.insert_or_assign(snapshot.step, snapshot);
    return "folder";
  }
  absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string&) override {
    at_load();
    const std::lock_guard lock(mutex_);
    ++loads;
    if (failing_loads-- > 0) return error;
    if (saved.empty()) return std::optional<Snapshot>();
    return std::optional<Snapshot>(saved.rbegin()->second);
  }
  absl::StatusOr<std::optional<CheckpointAge>> Newest() override { return std::nullopt; }

  void Reset() {
    const std::lock_guard lock(mutex_);
    failing_saves = failing_loads = saves = loads = 0;
    all_finite = true;
    saved.clear();
  }

  // For the test's thread, while nothing is being saved.
  absl::Status error = absl::UnavailableError("input/output error");
  int failing_saves = 0, failing_loads = 0, saves = 0, loads = 0;
  bool all_finite = true;
  std::function<void()> at_save = [] {}, at_load = [] {};
  std::map<std::int64_t, Snapshot> saved;

 private:
  std::mutex mutex_;
};

class GenerationsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Rank> Alone(const api::TrainingSpec& training = SmallTraining()) {
    return std::make_unique<Rank>(training, 1, hub_, 0, nullptr, "reference", &store_);
  }

  LocalRendezvousHub hub_{1};
  FlakyStore store_;
};

TEST_F(GenerationsTest, AGroupThatCanNeverBeFormedIsGivenUp) {
  const auto rank = Alone();
  for (const absl::Status& error :
       {absl::DeadlineExceededError("late"), absl::UnavailableError("refused")}) {
    int connects = 0;
    rank->faults.before = [&](At at) {
      if (at == At::kConnect) ++connects;
      return at == At::kConnect ? error : absl::OkStatus();
    };
    EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitRendezvousDeadline);
    EXPECT_EQ(connects, 1 + kThreeMore.restarts);
  }
}

TEST_F(GenerationsTest, GroupsThatFailAreFormedLessAndLessOften) {
  const auto rank = Alone();
  std::vector<SteadyTime> connects;
  rank->faults.before = [&](At at) {
    if (at != At::kConnect) return absl::OkStatus();
    connects.push_back(std::chrono::steady_clock::now());
    return absl::UnavailableError("refused");
  };
  const RestartBudgetOptions budget = {.restarts = 3,
                                       .first_delay = std::chrono::milliseconds(20),
                                       .longest_delay = std::chrono::milliseconds(40)};
  EXPECT_EQ(RunGenerations(rank->loop, budget), api::kExitRendezvousDeadline);
  ASSERT_EQ(connects.size(), 4U);
  EXPECT_GE(connects[2] - connects[1], budget.first_delay);
  EXPECT_GE(connects[3] - connects[2], budget.longest_delay);
}

// How often that is started again is limited elsewhere.
TEST_F(GenerationsTest, GenerationsThatEndedBecauseAMemberWasLostAreNotTakenFromTheBudget) {
  const auto rank = Alone();
  rank->rendezvous.lost_member = true;
  int connects = 0;
  rank->faults.before = [&](At at) {
    const bool fails = at == At::kConnect && ++connects <= 10 * kThreeMore.restarts;
    return fails ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  // But a network that breaks each time ends at last.
  const auto other = Alone();
  other->rendezvous.lost_member = true;
  connects = 0;
  other->faults.before = [&](At at) {
    if (at == At::kConnect) ++connects;
    return at == At::kConnect ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(other->loop, kThreeMore), api::kExitRendezvousDeadline);
  EXPECT_EQ(connects, 200 + 1 + kThreeMore.restarts);
}

TEST_F(GenerationsTest, ALostMemberIsNotTheLastFailureThatTheBudgetAllows) {
  const auto rank = Alone();
  int connects = 0;
  rank->faults.before = [&](At at) {
    if (at != At::kConnect) return absl::OkStatus();
    rank->rendezvous.lost_member = ++connects == kThreeMore.restarts + 1;
    return connects <= kThreeMore.restarts + 1 ? absl::UnavailableError("a network that flaps")
                                               : absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  EXPECT_EQ(connects, kThreeMore.restarts + 2);
}

TEST_F(GenerationsTest, EveryStepOfProgressMakesTheBudgetWholeAgain) {
  const auto rank = Alone();
  int steps = 0, losses = 0;
  rank->faults.before = [&](At at) {  // each step takes two attempts
    if (at != At::kStep || ++steps % 2 == 0) return absl::OkStatus();
    ++losses;
    return absl::UnavailableError("a peer is lost");
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  EXPECT_EQ(losses, 20);
  EXPECT_EQ(rank->loop.state.step, 20);
}

// A pair of ranks that is to have another number of workers from its fifth step on. Returns the
// steps at which they leave.
std::vector<std::int64_t> LeaveForNewWorkers(FlakyStore& store, const api::TrainingSpec& training,
                                             const std::function<void(int, Rank&)>& at_step,
                                             int fails_at = 0) {
  LocalRendezvousHub hub(2);
  std::vector<std::int64_t> steps(2);
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      Rank rank(training, 2, hub, index, nullptr, "reference", index == 0 ? &store : nullptr);
      int step = 0;
      rank.faults.before = [&](At at) {
        if (at == At::kStep && ++step == 5) rank.rendezvous.new_workers = 3;
        if (at == At::kStep && index == 0) at_step(step, rank);
        const bool fails = at == At::kStep && index == 0 && step == fails_at;
        return fails ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
      };
      EXPECT_EQ(RunGenerations(rank.loop, kThreeMore), api::kExitPreempted) << index;
      steps[static_cast<std::size_t>(index)] = rank.loop.state.step;
      EXPECT_FALSE(rank.rendezvous.asked_to_stop);
      EXPECT_EQ(rank.rendezvous.has_said_saved, index == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(steps[0], steps[1]);
  return steps;
}

TEST_F(GenerationsTest, AGroupLeavesForNewWorkersWithACheckpoint) {
  const auto steps = LeaveForNewWorkers(store_, SmallTraining(), [](int, Rank&) {});
  EXPECT_LT(steps[0], 10);
  EXPECT_THAT(store_.saved, ElementsAre(Key(steps[0])));
}

// Nobody has to leave, and only the memory of the group has the state.
TEST_F(GenerationsTest, AGroupWhoseSaveFailsKeepsItsWorkersUntilACheckpointIsSaved) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 4;
  training.epochs = 40;
  store_.at_save = [this] {
    if (store_.saves == 1) store_.failing_saves = 2;  // for new workers, and the next one
  };
  bool has_kept = false;
  const auto steps = LeaveForNewWorkers(store_, training, [&](int step, Rank& rank) {
    if (step == 8) has_kept = rank.rendezvous.keeps_workers;
  });
  EXPECT_TRUE(has_kept);
  EXPECT_GE(steps[0], 12) << "8 fails, 12 does not";
  EXPECT_EQ(store_.saved.rbegin()->first, steps[0]);
}

TEST_F(GenerationsTest, AGroupWhoseNextCheckpointIsFarAwayTriesAgainMinutesLater) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 0;
  store_.failing_saves = 1;
  const auto steps = LeaveForNewWorkers(store_, training, [&](int step, Rank& rank) {
    if (step == 12) rank.clock.Advance(std::chrono::minutes(5));
  });
  EXPECT_GE(steps[0], 12);
  EXPECT_THAT(store_.saved, ElementsAre(Key(steps[0])));
}

// Rank 1 asks again in the next generation, and that save succeeds.
TEST_F(GenerationsTest, AGroupThatHasLostAMemberAndCannotSaveIsFormedAgain) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 0;
  store_.failing_saves = 1;
  const auto steps = LeaveForNewWorkers(store_, training, [](int, Rank&) {}, /*fails_at=*/5);
  EXPECT_GE(steps[0], 5);
  EXPECT_THAT(store_.saved, ElementsAre(Key(steps[0])));
}

TEST_F(GenerationsTest, AGroupThatHasLostAMemberLeavesForNewWorkersIfItCanSave) {
  const auto rank = Alone();
  int step = 0;
  rank->faults.before = [&](At at) {
    if (at != At::kStep || ++step != 5) return absl::OkStatus();
    rank->rendezvous.new_workers = 3;
    return absl::UnavailableError("a peer is lost");
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitPreempted);
  EXPECT_TRUE(rank->rendezvous.has_said_saved);
  EXPECT_EQ(store_.saved.rbegin()->first, 4);
}

class StopOfAPeerTest : public GenerationsTest, public ::testing::WithParamInterface<int> {};

// The number comes before the stop, in the same step, or in the step that ends with it.
INSTANTIATE_TEST_SUITE_P(Steps, StopOfAPeerTest, ::testing::Values(3, 6, 7));

TEST_P(StopOfAPeerTest, AGroupWhoseSaveFailsWaitsForTheSuccessorOfAPodThatStops) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 0;
  constexpr int kStopsAt = 6;
  store_.failing_saves = GetParam() < kStopsAt ? 2 : 1;  // for new workers, and for the stop
  LocalRendezvousHub hub(2);
  const auto train = [&](int index, int stops_at) {
    Rank rank(training, 2, hub, index, nullptr, "reference", index == 0 ? &store_ : nullptr);
    int step = 0;
    rank.faults.before = [&](At at) {
      if (at != At::kStep) return absl::OkStatus();
      if (++step == GetParam()) rank.rendezvous.new_workers = 3;
      if (step == stops_at) rank.rendezvous.asked_to_stop = true;
      return absl::OkStatus();
    };
    EXPECT_EQ(RunGenerations(rank.loop, kThreeMore), api::kExitPreempted) << index;
    if (index == 0) hub.RequestStop();  // nobody waits for it
    return rank.loop.state.step;
  };
  auto last = std::async(std::launch::async, train, 0, -1);
  const std::int64_t first = train(1, kStopsAt);
  EXPECT_GT(train(1, -1), first);
  const std::int64_t left = last.get();
  EXPECT_GT(left, first);
  EXPECT_THAT(store_.saved, ElementsAre(Key(left)));
}

TEST_F(GenerationsTest, AnEvaluationGoesOnWhereNewWorkersMustWait) {
  store_.failing_saves = 1;
  LocalRendezvousHub hub(1);
  const auto rank = Alone();
  rank->rendezvous.at_activity = [&](api::Activity activity) {
    if (activity == api::Activity::kEvaluation) rank->rendezvous.new_workers = 2;
    if (activity == api::Activity::kStep && rank->rendezvous.keeps_workers) {
      rank->rendezvous.new_workers = 0;  // taken back
    }
  };
  EXPECT_EQ(rank->RunOnce().end, LoopEnd::kStopped) << "at the second evaluation";
  EXPECT_EQ(rank->loop.state.evaluated_step, 5) << "the first is complete";
  EXPECT_EQ(store_.saves, 2);
}

TEST_F(GenerationsTest, AReadErrorThatPassesCostsNothing) {
  store_.failing_loads = 2;
  const auto rank = Alone();
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  EXPECT_EQ(store_.loads, 3);
}

// In a process of its own, because it lasts.
TEST_F(GenerationsTest, AStopIsHeardInARestoreFromAVolumeThatHangs) {
  store_.at_load = [] {
    kill(getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::minutes(5));
  };
  const auto restore = [this] {
    InstallStopSignal();
    std::_Exit(RunGenerations(Alone()->loop, kThreeMore));
  };
  EXPECT_EXIT(restore(), ::testing::ExitedWithCode(api::kExitPreempted), "the restore");
}

TEST_F(GenerationsTest, ADiskThatStaysUnreadableEndsTheRunWithItsOwnCode) {
  store_.failing_loads = 1000;
  EXPECT_EQ(RunGenerations(Alone()->loop, kThreeMore), api::kExitStorage);
  EXPECT_EQ(store_.loads, 1 + kThreeMore.restarts);
}

TEST_F(GenerationsTest, TheLastCheckpointIsTriedAgainAndGivenUpInTheEnd) {
  store_.failing_saves = 2;
  EXPECT_EQ(RunGenerations(Alone()->loop, kThreeMore), api::kExitDone);
  EXPECT_TRUE(store_.saved.contains(20));
  store_.Reset();
  store_.failing_saves = 1000;
  EXPECT_EQ(RunGenerations(Alone()->loop, kThreeMore), api::kExitStorage);
}

TEST_F(GenerationsTest, AFullDiskAndALostFolderAreFinal) {
  store_.failing_saves = 1000;
  store_.error = absl::ResourceExhaustedError("no space left");
  EXPECT_EQ(RunGenerations(Alone()->loop, kThreeMore), api::kExitStorage);
  EXPECT_EQ(store_.saves, 1);
  store_.error = absl::AbortedError("it belongs to a newer process");
  EXPECT_EQ(RunGenerations(Alone()->loop, kThreeMore), api::kExitPeerLost);
  EXPECT_EQ(store_.saves, 2);
}

// Two jobs in one folder, of which the one that came later trains.
class TwoJobsTest : public GenerationsTest {
 protected:
  std::unique_ptr<CheckpointStore> OpenFor(const std::string& job) {
    return *CheckpointStore::Open(files_, "/checkpoints", 3, {.job_uid = job, .pod_started = 1});
  }
  std::string Owner() { return (*ReadOwner(files_, "/checkpoints"))->process.job_uid; }

  FaultFileSystem files_;
};

TEST_F(TwoJobsTest, AJobThatIsRefusedLeavesTheFolderToTheOneThatTrainsThere) {
  const auto running = OpenFor("uid-a");
  api::TrainingSpec training = SmallTraining();
  const auto first = std::make_unique<Rank>(training, 1, hub_, 0);
  ASSERT_TRUE(running->Save(MakeSnapshot(*first->session, {.step = 0}, Time())).ok());
  api::TrainingSpec another_batch = training, another_model = training;
  another_batch.batch_size.global = 32;
  another_model.model.layers =
      api::Json::array({{{"type", "Flatten"}}, {{"type", "Dense"}, {"units", 3}}});
  for (const api::TrainingSpec& refused : {another_batch, another_model}) {
    LocalRendezvousHub hub(1);
    const auto store = OpenFor("uid-b");
    Rank rank(refused, 1, hub, 0, nullptr, "reference", store.get());
    EXPECT_EQ(RunGenerations(rank.loop, kThreeMore), api::kExitBadConfig);
    EXPECT_EQ(Owner(), "uid-a");
    const auto saved = running->Save(MakeSnapshot(*first->session, {.step = 5}, Time()));
    EXPECT_TRUE(saved.ok()) << saved.status();
  }
}

TEST_F(TwoJobsTest, TheEarlierJobEndsForGoodOnceTheLaterHasItsFolder) {
  const auto store = OpenFor("uid-a"), later = OpenFor("uid-b");
  const auto rank =
      std::make_unique<Rank>(SmallTraining(), 1, hub_, 0, nullptr, "reference", store.get());
  rank->faults.before = [&](At at) {
    const bool now = at == At::kStep && rank->loop.state.step == 5;
    return now ? later->Claim().status() : absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitBadConfig);
  EXPECT_EQ(Owner(), "uid-b");
  EXPECT_EQ(rank->saver->outcome().failures, 1) << "a second save would be refused, too";
}

TEST_F(TwoJobsTest, TheLaterJobGoesOnFromWhatTheEarlierSavesUntilItLosesItsFolder) {
  const auto running = OpenFor("uid-a"), store = OpenFor("uid-b");
  const auto first = std::make_unique<Rank>(SmallTraining(), 1, hub_, 0);
  // After the look at the folder, and before the claim.
  class SavesMeanwhile final : public CheckpointStore {
   public:
    SavesMeanwhile(CheckpointStore& inner, std::function<void()> at_load)
        : inner_(inner), at_load_(std::move(at_load)) {}
    absl::StatusOr<bool> Claim() override { return inner_.Claim(); }
    bool IsClaimed() const override { return inner_.IsClaimed(); }
    absl::StatusOr<std::string> Save(const Snapshot& snapshot) override {
      return inner_.Save(snapshot);
    }
    absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string& model_hash) override {
      auto loaded = inner_.LoadLatest(model_hash);
      std::exchange(at_load_, [] {})();
      return loaded;
    }
    absl::StatusOr<std::optional<CheckpointAge>> Newest() override { return inner_.Newest(); }

   private:
    CheckpointStore& inner_;
    std::function<void()> at_load_;
  } watched(*store, [&] {
    ASSERT_TRUE(running->Save(MakeSnapshot(*first->session, {.step = 5}, Time())).ok());
  });
  LocalRendezvousHub hub(1);
  Rank rank(SmallTraining(), 1, hub, 0, nullptr, "reference", &watched);
  EXPECT_EQ(rank.loop.RestoreOrInitialize(), std::nullopt);
  EXPECT_EQ(rank.loop.state.step, 5);
  EXPECT_EQ(Owner(), "uid-b");
}

TEST_F(TwoJobsTest, AfterAFailureTheLaterJobStillGoesOnFromTheNewestCheckpoint) {
  const auto first = std::make_unique<Rank>(SmallTraining(), 1, hub_, 0);
  // The other job saves step 10 before the claim. Then the disk fails once.
  class FailsOnce final : public CheckpointStore {
   public:
    FailsOnce(Snapshot older, Snapshot newer, bool fails_in_claim)
        : older_(std::move(older)), newer_(std::move(newer)), fails_in_claim_(fails_in_claim) {}
    absl::StatusOr<bool> Claim() override {
      const bool is_first = !std::exchange(claimed_, true);
      if (is_first && fails_in_claim_) return Fail();
      return is_first;
    }
    bool IsClaimed() const override { return claimed_; }
    absl::StatusOr<std::string> Save(const Snapshot&) override { return "folder"; }
    absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string&) override {
      if (!claimed_) return std::optional<Snapshot>(older_);
      if (!failed_) return Fail();
      return std::optional<Snapshot>(newer_);
    }
    absl::StatusOr<std::optional<CheckpointAge>> Newest() override { return std::nullopt; }

   private:
    absl::Status Fail() {
      failed_ = true;
      return absl::UnavailableError("input/output error");
    }
    const Snapshot older_, newer_;
    const bool fails_in_claim_;
    bool claimed_ = false, failed_ = false;
  };
  for (const bool fails_in_claim : {false, true}) {
    FailsOnce store(MakeSnapshot(*first->session, {.step = 5}, Time()),
                    MakeSnapshot(*first->session, {.step = 10}, Time()), fails_in_claim);
    LocalRendezvousHub hub(1);
    Rank rank(SmallTraining(), 1, hub, 0, nullptr, "reference", &store);
    EXPECT_NE(rank.loop.RestoreOrInitialize(), std::nullopt);
    EXPECT_EQ(rank.loop.OfferedStep(), -1) << fails_in_claim;
    EXPECT_EQ(rank.loop.RestoreOrInitialize(), std::nullopt);
    EXPECT_EQ(rank.loop.state.step, 10);
  }
}

// It may be an earlier job's manifest that was applied again, or be there only to export.
TEST_F(TwoJobsTest, AJobThatHasNothingToTrainLeavesTheFolderToTheOneThatTrainsThere) {
  const auto running = OpenFor("uid-a");
  const auto first = std::make_unique<Rank>(SmallTraining(), 1, hub_, 0);
  for (const std::int64_t evaluated : {20, -1}) {
    SCOPED_TRACE(evaluated);
    const RunState state{.step = 20, .evaluated_step = evaluated};
    ASSERT_TRUE(running->Save(MakeSnapshot(*first->session, state, Time())).ok());
    LocalRendezvousHub hub(1);
    const auto store = OpenFor("uid-b");
    Rank rank(SmallTraining(), 1, hub, 0, nullptr, "reference", store.get());
    EXPECT_EQ(RunGenerations(rank.loop, kThreeMore), api::kExitDone);
    EXPECT_EQ(rank.loop.state.evaluated_step, 20);
    EXPECT_EQ(Owner(), "uid-a");
  }
}

// It would wait for the folder for ever.
TEST_F(TwoJobsTest, BesideAnEvaluatorTheFolderIsTakenThoughNothingIsLeftToTrain) {
  const auto first = std::make_unique<Rank>(SmallTraining(), 1, hub_, 0);
  ASSERT_TRUE(OpenFor("uid-a")->Save(MakeSnapshot(*first->session, {.step = 20}, Time())).ok());
  api::TrainingSpec training = SmallTraining();
  training.evaluation.enabled = false;
  LocalRendezvousHub hub(1);
  const auto store = OpenFor("uid-b");
  Rank rank(training, 1, hub, 0, nullptr, "reference", store.get());
  EXPECT_EQ(RunGenerations(rank.loop, kThreeMore), api::kExitDone);
  EXPECT_EQ(Owner(), "uid-b");
}

// A library that has no memory says it as a disk does that has no space.
TEST_F(GenerationsTest, OnlyAFullDiskStopsTheSaveOfAProcessThatLeaves) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 3;
  const auto rank = Alone(training);
  rank->rendezvous.join_error = absl::ResourceExhaustedError("no memory");
  rank->faults.before = [&](At at) {
    const bool now = at == At::kStep && rank->loop.state.step == 5;
    return now ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
  };
  EXPECT_TRUE(api::IsRetryableExitCode(RunGenerations(rank->loop, kThreeMore)));
  EXPECT_TRUE(store_.saved.contains(5));
}

// What rank 0 holds when it leaves. everySteps is 0, so nothing else has been saved.

class LeavingTest : public GenerationsTest {
 protected:
  // Fails with `error` from the step after 7 on.
  std::unique_ptr<Rank> FailingAfterStep7(const absl::Status& error) {
    auto rank = Alone();
    rank->faults.before = [error, &loop = rank->loop](At at) {
      return at == At::kStep && loop.state.step == 7 ? error : absl::OkStatus();
    };
    return rank;
  }
  const absl::Status lost_ = absl::UnavailableError("a peer is lost");
};

TEST_F(LeavingTest, AnErrorThatIsFinalCostsNoStep) {
  const auto rank = FailingAfterStep7(absl::FailedPreconditionError("for good"));
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitBadConfig);
  EXPECT_TRUE(store_.saved.contains(7));
}

TEST_F(LeavingTest, GenerationsWithoutAStepCostNoStep) {
  EXPECT_EQ(RunGenerations(FailingAfterStep7(lost_)->loop, kThreeMore),
            api::kExitRendezvousDeadline);
  EXPECT_TRUE(store_.saved.contains(7));
}

TEST_F(LeavingTest, APeerThatNeverComesBackCostsNoStep) {
  const auto rank = FailingAfterStep7(lost_);
  rank->rendezvous.join_error = absl::DeadlineExceededError("worker 1 is missing");
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitRendezvousDeadline);
  EXPECT_TRUE(store_.saved.contains(7));
}

// It is started again in its pod, which has no room for its memory twice.
TEST_F(LeavingTest, ThePeerThatIsWaitedForIsNotHeldInMemory) {
  const auto rank = FailingAfterStep7(lost_);
  rank->rendezvous.join_error = absl::DeadlineExceededError("worker 1 is missing");
  RunGenerations(rank->loop, kThreeMore);
  EXPECT_EQ(rank->strategy->CommunicatorName(), "none");
}

TEST_F(LeavingTest, ASaveThatFailsDoesNotHideWhyTheProcessLeaves) {
  const auto rank = FailingAfterStep7(lost_);
  rank->rendezvous.join_error = absl::DeadlineExceededError("worker 1 is missing");
  store_.failing_saves = 1;
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitRendezvousDeadline);
  EXPECT_EQ(store_.saves, 1);
}

TEST_F(LeavingTest, AProcessWhosePlaceIsTakenOrWhoseRunIsOverSavesNothing) {
  for (const auto& [error, code] :
       {std::pair(absl::AbortedError("a later process has its place"), api::kExitPeerLost),
        std::pair(absl::AlreadyExistsError("training is done"), api::kExitDone)}) {
    const auto rank = FailingAfterStep7(lost_);
    rank->rendezvous.join_error = error;
    EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), code);
    EXPECT_EQ(store_.saves, 0);
  }
}

// The update of step 7 has overflowed, which shows before a save only.
TEST_F(LeavingTest, AStateThatHasDivergedEndsTheRunThoughAStopIsAskedFor) {
  const auto rank = FailingAfterStep7(lost_);
  rank->rendezvous.join_error = absl::CancelledError("asked to stop");
  rank->faults.before = [&](At at) {
    if (at != At::kStep || rank->loop.state.step < 7) return absl::OkStatus();
    rank->session->model().parameters()[3] = kInfinity;
    return lost_;
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDiverged);
  EXPECT_EQ(store_.saves, 0);
}

// Both are ResourceExhausted, but what else runs on the node may end.
TEST(ExitCodeTest, AFullDiskIsFinalAndAShortageOfMemoryIsTriedAgain) {
  const absl::Status full = absl::ResourceExhaustedError("no space left");
  EXPECT_EQ(ExitCodeOfEnd(EndOfStore(full)), api::kExitStorage);
  EXPECT_EQ(ExitCodeOfEnd(EndOfStore(absl::PermissionDeniedError("read-only"))), api::kExitStorage);
  const absl::Status memory = absl::ResourceExhaustedError("libpng: no memory");
  EXPECT_TRUE(api::IsRetryableExitCode(ExitCodeOfEnd(FailedFor(memory))));
  const auto buffer = GradientBuffer::Create(std::numeric_limits<std::size_t>::max());
  ASSERT_FALSE(buffer.ok());
  EXPECT_TRUE(api::IsRetryableExitCode(FailWith(buffer.status()))) << buffer.status();
}

TEST_F(GenerationsTest, AProcessThatLostItsFolderStopsAtTheNextStep) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 1;
  store_.failing_saves = 1000;
  store_.error = absl::AbortedError("it belongs to a newer process");
  const auto rank = Alone(training);
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitPeerLost);
  EXPECT_LT(rank->loop.state.step, 20);
}

// The peer of a preempted leader is lost just after a step that saves.
TEST_F(GenerationsTest, AStepWhoseSaveIsStillRunningIsNotSavedAgain) {
  std::promise<void> disk;
  store_.at_save = [answers = disk.get_future().share()] { answers.wait(); };
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 3;
  const auto rank = Alone(training);
  rank->faults.before = [&](At at) {
    const bool now = at == At::kStep && rank->loop.state.step == 3;
    return now ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
  };
  EXPECT_EQ(rank->RunOnce().end, LoopEnd::kGenerationOver);
  EXPECT_EQ(rank->loop.state.step, 3);
  auto saved = std::async(std::launch::async, [&] { return rank->loop.SaveAlone(); });
  EXPECT_EQ(saved.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  disk.set_value();
  const LoopOutcome outcome = saved.get();
  EXPECT_EQ(outcome.end, LoopEnd::kStopped);
  EXPECT_TRUE(outcome.reason.ok()) << outcome.reason;
  EXPECT_EQ(store_.saves, 1);
}

// So that the others wait for it if their generation ends meanwhile.
TEST_F(GenerationsTest, ARankThatWaitsForAnEarlierSaveTellsItsGroupThatItSaves) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 3;
  const auto rank = Alone(training);
  std::promise<void> second;
  int announced = 0;
  rank->rendezvous.at_activity = [&](api::Activity activity) {
    if (activity == api::Activity::kCheckpoint && ++announced == 2) second.set_value();
  };
  bool told = false;
  store_.at_save = [&, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    told = second.get_future().wait_for(testing::Slowed(std::chrono::seconds(60))) ==
           std::future_status::ready;
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  EXPECT_TRUE(told);
  EXPECT_EQ(store_.saved.size(), 7);
}

// What is due at the last step of a generation.

TEST_F(GenerationsTest, ACheckpointThatIsDueIsSavedThoughItsGenerationEndsInTheEvaluationBefore) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 5;  // an epoch
  const auto rank = Alone(training);
  int sums = 0;
  rank->faults.before = [&](At at) {
    const bool now = at == At::kSum && ++sums == 2;
    return now ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  EXPECT_THAT(store_.saved, ElementsAre(Key(5), Key(10), Key(15), Key(20)));
  EXPECT_EQ(store_.saves, 4);
}

TEST_F(GenerationsTest, NoCheckpointIsSavedOrReadAndSavedAgainWhenTheNextGenerationBegins) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 5;
  int begun = 0;
  const auto lose_step_after_5 = [&](At at) {
    const bool now = at == At::kStep && ++begun == 6;
    return now ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
  };
  {
    const auto rank = Alone(training);
    rank->faults.before = lose_step_after_5;
    EXPECT_EQ(rank->RunOnce().end, LoopEnd::kGenerationOver);
    begun = 5;
    EXPECT_EQ(rank->RunOnce().end, LoopEnd::kGenerationOver);
  }
  EXPECT_EQ(store_.saves, 1);
  const auto successor = Alone(training);
  successor->faults.before = lose_step_after_5;
  begun = 5;
  EXPECT_EQ(successor->RunOnce().end, LoopEnd::kGenerationOver);
  EXPECT_EQ(successor->loop.state.step, 5);
  EXPECT_EQ(store_.loads, 2);
  EXPECT_TRUE(successor->saver->Wait().ok());
  EXPECT_EQ(store_.saves, 1);
}

// As if a parameter server had lost its values: what is on the disk is older.
TEST_F(GenerationsTest, ACheckpointThatCouldNotBeSavedIsSavedWhenTheRunComesToItsStepAgain) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 3;
  store_.failing_saves = 1;
  const auto rank = Alone(training);
  bool is_lost = false;
  rank->faults.before = [&](At at) {
    const bool now = at == At::kStep && rank->loop.state.step == 4 && !is_lost;
    is_lost = is_lost || now;
    return now ? absl::UnavailableError("a peer is lost") : absl::OkStatus();
  };
  EXPECT_EQ(rank->RunOnce().end, LoopEnd::kGenerationOver);
  EXPECT_FALSE(rank->saver->Wait().ok());
  EXPECT_FALSE(rank->loop.RestoreOrInitialize());
  EXPECT_EQ(rank->loop.state.step, 0);
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  EXPECT_TRUE(store_.saved.contains(3));
}

// It takes the state of rank 1, which has done the step that it has lost.
TEST_F(GenerationsTest, ACheckpointThatIsDueIsSavedThoughRankZeroHasItsStateFromAPeer) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 3;
  LocalRendezvousHub hub(2);
  std::thread second([&] {
    Rank rank(training, 2, hub, 1);
    EXPECT_EQ(RunGenerations(rank.loop, kThreeMore), api::kExitDone);
  });
  Rank first(training, 2, hub, 0, nullptr, "reference", &store_);
  int steps = 0;
  first.faults.after = [&](At at) {
    if (at != At::kStep || ++steps != 6) return absl::OkStatus();
    hub.EndGeneration("lost by the test");
    return absl::UnavailableError("lost by the test");
  };
  EXPECT_EQ(RunGenerations(first.loop, kThreeMore), api::kExitDone);
  second.join();
  EXPECT_EQ(steps, 20) << "rank 0 did not do step 5 again";
  EXPECT_TRUE(store_.saved.contains(6));
}

// What is not finite.

TEST_F(GenerationsTest, AGradientThatOverflowsIsNeitherAppliedNorSaved) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 1;
  for (const std::int64_t bad_step : {7, 19}) {  // in the middle, and the last one
    store_.Reset();
    const auto rank = Alone(training);
    std::vector<float> before;
    rank->faults.after = [&](At at) {
      if (at == At::kStep && rank->loop.state.step == bad_step) {
        before = rank->Parameters();
        rank->session->model().gradients()[3] = kInfinity;  // the loss of this step is fine
      }
      return absl::OkStatus();
    };
    EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDiverged);
    EXPECT_EQ(rank->loop.state.step, bad_step);
    EXPECT_EQ(rank->Parameters(), before);
    EXPECT_TRUE(rank->saver->Wait().ok());
    EXPECT_EQ(store_.saved.rbegin()->first, bad_step);
    EXPECT_TRUE(store_.all_finite);
  }
}

TEST_F(GenerationsTest, AnUpdateThatOverflowsIsNotSaved) {
  api::TrainingSpec training = SmallTraining();
  training.epochs = std::nullopt;
  training.steps = 1;
  training.evaluation.enabled = false;
  training.optimizer = {.name = "SGD", .learning_rate = 1e39};
  EXPECT_EQ(RunGenerations(Alone(training)->loop, kThreeMore), api::kExitDiverged);
  EXPECT_EQ(store_.saves, 0);
}

TEST_F(GenerationsTest, AnEvaluationThatIsNoNumberIsNotSaved) {
  const auto rank = Alone();
  rank->faults.change_sum = [](std::span<float> sums) {
    if (sums.size() > 1) sums[0] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDiverged);
  EXPECT_EQ(rank->loop.state.evaluated_step, -1);
  EXPECT_EQ(store_.saves, 0);
}

// What a broadcast that broke off may leave behind.
TEST_F(GenerationsTest, AFreshStartStartsFromZeroesWhateverTheMemoryHolds) {
  api::TrainingSpec training = SmallTraining();
  LocalRendezvousHub other_hub(1);
  Rank untouched(training, 1, other_hub, 0);
  EXPECT_TRUE(untouched.Train());
  const auto rank = Alone(training);
  for (const TensorSlot& tensor : rank->session->model().parameter_slots()) {
    const auto begin = static_cast<std::size_t>(tensor.offset);
    const auto size = static_cast<std::size_t>(tensor.size);
    for (int slot = 0; slot < rank->session->optimizer().slots(); ++slot) {
      std::ranges::fill(rank->session->optimizer().slot(slot).subspan(begin, size), 0.5f);
    }
    std::ranges::fill(rank->session->model().parameters().subspan(begin, size), 0.5f);
  }
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  EXPECT_EQ(rank->Parameters(), untouched.Parameters());
}

// Stops.

TEST_F(GenerationsTest, AStopDuringTheEvaluationSavesAndLeavesBeforeItsEnd) {
  const auto rank = Alone();
  int batches = 0;
  rank->faults.before = [&](At at) {
    if (at == At::kSum && ++batches == 1) hub_.RequestStop();
    return absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitPreempted);
  EXPECT_LE(batches, 2);                           // of three, and the sums after them
  EXPECT_EQ(rank->loop.state.evaluated_step, -1);  // so it is evaluated after the resume
  EXPECT_TRUE(store_.saved.contains(rank->loop.state.step));
  EXPECT_THAT(rank->Message(), HasSubstr("\"lastCheckpointStep\":"));
}

// Kubernetes takes the message for a container's last words, and prefers it to the last log lines.
TEST_F(GenerationsTest, OnlyAProcessThatExitsCleanlyLeavesAMessage) {
  const auto failed = Alone();
  failed->faults.before = [](At at) {
    return at == At::kStep ? absl::FailedPreconditionError("for good") : absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(failed->loop, kThreeMore), api::kExitBadConfig);
  EXPECT_EQ(failed->Message(), "");
  const auto done = Alone();
  EXPECT_EQ(RunGenerations(done->loop, kThreeMore), api::kExitDone);
  EXPECT_THAT(done->Message(), HasSubstr("\"step\":20"));
}

// The failure does not pass by itself, but the next process may find a disk that has room.
TEST_F(GenerationsTest, AStopWhoseStateCannotBeSavedIsTriedAgainAndIsNotFinal) {
  for (const bool recovers : {true, false}) {
    store_.Reset();
    store_.error = absl::ResourceExhaustedError("no space left");
    store_.failing_saves = recovers ? 1 : 1000;
    const auto rank = Alone();
    rank->rendezvous.asked_to_stop = true;
    EXPECT_EQ(RunGenerations(rank->loop, kThreeMore),
              recovers ? api::kExitPreempted : api::kExitPeerLost);
    EXPECT_EQ(store_.saves, 2);
    EXPECT_EQ(store_.saved.contains(rank->loop.state.step), recovers);
    EXPECT_EQ(rank->Message().empty(), !recovers);
  }
}

// Two ranks, of which rank 1's pod is asked to stop.
class PreemptionTest : public ::testing::Test {
 protected:
  struct Stop {
    At at;
    int operations_before;  // of that kind
  };
  static constexpr Stop kInStep5{At::kStep, 4}, kInEvaluation{At::kSum, 0};

  void StopWorker(Stop stop) {
    Rank preempted(training_, 2, hub_, 1);
    preempted.faults.before = [&, count = 0](At at) mutable {
      if (at == stop.at && count++ == stop.operations_before) {
        preempted.rendezvous.asked_to_stop = true;
      }
      return absl::OkStatus();
    };
    EXPECT_EQ(RunGenerations(preempted.loop, kThreeMore), api::kExitPreempted);
    // Its connections close when its process is gone, which must not cost the leader a step.
    EXPECT_TRUE(leader_knows_.try_acquire_for(testing::Slowed(std::chrono::seconds(60))));
  }
  // Its successor comes at once.
  std::jthread ReplaceWorker(Stop stop) {
    return std::jthread([this, stop] {
      StopWorker(stop);
      Rank successor(training_, 2, hub_, 1);
      EXPECT_EQ(RunGenerations(successor.loop, kThreeMore), api::kExitDone);
    });
  }
  // Its first checkpoint is due when it knows of the stop.
  std::unique_ptr<Rank> MakeLeader(CheckpointStore& store) {
    auto leader = std::make_unique<Rank>(training_, 2, hub_, 0, nullptr, "reference", &store);
    leader->rendezvous.at_activity = [this, knows = false](api::Activity activity) mutable {
      if (activity != api::Activity::kCheckpoint || std::exchange(knows, true)) return;
      leader_knows_.release();
    };
    return leader;
  }

  api::TrainingSpec training_ = SmallTraining();  // 20 steps, and only the last is saved
  LocalRendezvousHub hub_{2};
  FlakyStore store_;
  std::binary_semaphore leader_knows_{0};
};

// As a run with parameter servers does whose newest checkpoint is damaged when they lose their
// values.
TEST_F(GenerationsTest, WhatWasSavedBeforeARunWentBackDoesNotCount) {
  api::TrainingSpec training = SmallTraining();
  training.checkpoint.every_steps = 5;
  const auto rank = Alone(training);
  EXPECT_EQ(RunGenerations(rank->loop, kThreeMore), api::kExitDone);
  ASSERT_EQ(store_.saved.erase(20), 1U);
  rank->loop.state = {};
  EXPECT_EQ(rank->RunOnce().end, LoopEnd::kDone);
  EXPECT_TRUE(store_.saved.contains(20));
}

TEST_F(PreemptionTest, ALeaderWhoseDiskIsFullGoesOnWithTheStateInItsMemory) {
  FaultFileSystem files;
  const auto store = *CheckpointStore::Open(files, "/checkpoints", 3, {});
  files.FillDiskInOperation(1, /*stays_full=*/true);
  const std::jthread second = ReplaceWorker(kInStep5);
  const auto leader = MakeLeader(*store);
  std::vector<std::int64_t> steps;
  int generations = 0;
  leader->faults.before = [&](At at) {
    if (at == At::kStep) steps.push_back(leader->loop.state.step);
    if (at == At::kConnect && ++generations == 2) files.Reboot(FaultFileSystem::kKeepAll);
    return absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(leader->loop, kThreeMore), api::kExitDone);
  std::vector<std::int64_t> each_once(20);
  std::iota(each_once.begin(), each_once.end(), 0);
  EXPECT_EQ(steps, each_once);
  EXPECT_EQ(generations, 2);
  EXPECT_EQ(leader->saver->outcome().failures, 1);
  EXPECT_EQ(leader->saver->outcome().last_saved_step, 20);
}

TEST_F(PreemptionTest, ALeaderGoesOnWhateverItsDiskSaysInAStepOrInAnEvaluation) {
  for (const Stop stop : {kInStep5, kInEvaluation}) {
    for (const absl::Status& error :
         {absl::ResourceExhaustedError("no space left"), absl::PermissionDeniedError("read-only"),
          absl::UnavailableError("input/output error"), absl::InternalError("a bug")}) {
      SCOPED_TRACE(error.ToString());
      store_.Reset();
      store_.error = error;
      store_.failing_saves = 1;
      std::jthread second = ReplaceWorker(stop);
      EXPECT_EQ(RunGenerations(MakeLeader(store_)->loop, kThreeMore), api::kExitDone);
      second.join();
      EXPECT_EQ(store_.saves, 2);
      EXPECT_EQ(store_.loads, 1);
      EXPECT_THAT(store_.saved, ElementsAre(Key(20)));
    }
  }
}

TEST_F(PreemptionTest, ALeaderThatCouldNotSaveTriesAgainAtTheSameStepIfItIsDue) {
  // The stop counts in the sixth step, after which there is no evaluation that alters the state.
  training_.checkpoint.every_steps = 6;
  training_.evaluation.every_epochs = 4;
  store_.error = absl::ResourceExhaustedError("no space left");
  store_.failing_saves = 1000;
  const std::jthread second = ReplaceWorker(kInStep5);
  const auto leader = MakeLeader(store_);
  int generations = 0;
  leader->faults.before = [&](At at) {
    if (at == At::kConnect && ++generations == 2) store_.failing_saves = 0;  // the disk has room
    return absl::OkStatus();
  };
  EXPECT_EQ(RunGenerations(leader->loop, kThreeMore), api::kExitDone);
  EXPECT_THAT(store_.saved, ElementsAre(Key(6), Key(12), Key(18), Key(20)));
}

TEST_F(PreemptionTest, ALeaderThatHasLostItsFolderEndsWhenAPeerIsAskedToStop) {
  store_.error = absl::AbortedError("it belongs to a newer process");
  store_.failing_saves = 1000;
  const std::jthread second([this] { StopWorker(kInStep5); });
  EXPECT_EQ(RunGenerations(MakeLeader(store_)->loop, kThreeMore), api::kExitPeerLost);
  EXPECT_EQ(store_.saves, 1);
}

TEST_F(PreemptionTest, TheLastCheckpointHasTheEvaluationThatAStopHasInterrupted) {
  training_.evaluation.every_epochs = 4;
  const std::jthread second = ReplaceWorker(kInEvaluation);
  const auto leader = MakeLeader(store_);
  EXPECT_EQ(RunGenerations(leader->loop, kThreeMore), api::kExitDone);
  EXPECT_EQ(leader->loop.state.evaluated_step, 20);
  ASSERT_THAT(store_.saved, ElementsAre(Key(20)));
  EXPECT_EQ(store_.saved.at(20).state["run"]["evaluatedStep"], 20);
}

TEST_F(PreemptionTest, ARunWhoseLastStepIsSavedIsDoneThoughItsEvaluationIsNot) {
  training_.evaluation.every_epochs = 4;
  store_.error = absl::ResourceExhaustedError("no space left");
  const std::jthread second = ReplaceWorker(kInEvaluation);
  const auto leader = MakeLeader(store_);
  store_.at_save = [&] { store_.failing_saves = store_.saves == 0 ? 0 : 1; };
  EXPECT_EQ(RunGenerations(leader->loop, kThreeMore), api::kExitDone);
  EXPECT_EQ(store_.saves, 2);
  ASSERT_THAT(store_.saved, ElementsAre(Key(20)));
  EXPECT_EQ(leader->saver->outcome().failures, 1);
  const LoopOutcome again = leader->loop.SaveAndEnd(LoopEnd::kDone, /*rank=*/0);
  EXPECT_TRUE(again.reason.ok()) << "in a generation that is formed again: " << again.reason;
}

TEST_F(PreemptionTest, ALeaderThatGoesOnWithoutAPeerLeavesNoMessage) {
  const std::jthread second = ReplaceWorker(kInStep5);
  const auto leader = MakeLeader(store_);
  EXPECT_EQ(leader->RunOnce().end, LoopEnd::kStopped);
  EXPECT_EQ(leader->Message(), "");
  EXPECT_LT(leader->loop.state.step, 20);
  EXPECT_EQ(RunGenerations(leader->loop, kThreeMore), api::kExitDone);
  EXPECT_THAT(leader->Message(), HasSubstr("\"step\":20"));
}

// A generation's end, whenever it strikes.
class MemberLossTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Devices, MemberLossTest, ::testing::ValuesIn(kRankDevices),
                         [](const auto& device) { return TestName(device.param); });

struct Loss {
  At at = At::kStep;
  int count = 0;  // of such operations before it, on rank `rank`
  bool late = false;
  int rank = 0;
};

// Also with statistics, which a step that has to be done again must not track twice.
api::TrainingSpec TrainingWithStatistics() {
  api::TrainingSpec training = SmallTraining();
  api::Json layers = *training.model.layers;
  layers.insert(layers.begin() + 1, api::Json{{"type", "BatchNormalization"}});
  training.model.layers = std::move(layers);
  return training;
}

// Three ranks; `loss` strikes one of them. All keep their memory.
std::vector<std::vector<float>> TrainThree(const std::optional<Loss>& loss,
                                           const std::string& backend = "reference") {
  LocalRendezvousHub hub(3);
  std::vector<std::vector<float>> parameters(3);
  std::vector<std::thread> threads;
  for (int index = 0; index < 3; ++index) {
    threads.emplace_back([&, index] {
      Rank rank(TrainingWithStatistics(), 3, hub, index, nullptr, backend);
      int seen = 0;
      const auto strike = [&](At at) {
        if (!loss || loss->rank != index || loss->at != at || seen++ != loss->count) {
          return absl::OkStatus();
        }
        hub.EndGeneration("lost by the test");
        return absl::UnavailableError("lost by the test");
      };
      if (loss && loss->late) rank.faults.after = strike;
      if (loss && !loss->late) rank.faults.before = strike;
      EXPECT_EQ(RunGenerations(rank.loop, kThreeMore), api::kExitDone);
      EXPECT_EQ(rank.loop.state.ledger.lost_total(), 0);
      EXPECT_EQ(rank.loop.state.ledger.duplicated_total(), 0);
      EXPECT_FALSE(rank.session->model().states().empty());
      parameters[static_cast<std::size_t>(index)] = rank.State();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return parameters;
}

TEST_P(MemberLossTest, WhenASurvivorIsAStepBehindItTakesTheStateOfTheOthersWhole) {
  const auto expected = TrainThree(std::nullopt, GetParam());
  // Late in a step: its sums are there, the others have applied them, this rank has not.
  for (const int rank : {0, 1, 2}) {
    SCOPED_TRACE(rank);
    EXPECT_EQ(TrainThree(Loss{.at = At::kStep, .count = 6, .late = true, .rank = rank}, GetParam()),
              expected);
  }
}

TEST_P(MemberLossTest, WhereverItStrikesTheRunEndsWithTheSameBits) {
  const auto expected = TrainThree(std::nullopt, GetParam());
  for (const At at : {At::kConnect, At::kBroadcast, At::kSum, At::kStep}) {
    for (const bool late : {false, true}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(at) << " late " << late);
      const Loss loss{.at = at, .count = at == At::kConnect ? 0 : 2, .late = late, .rank = 1};
      EXPECT_EQ(TrainThree(loss, GetParam()), expected);
    }
  }
}

// Rank 1 is a step behind and has received a part of rank 0's state when rank 0 dies: what is left
// must be rank 1's own state, of one step. On a host's device, where the ranks' steps are known.
TEST(SourceLossTest, ASourceThatDiesHalfWayLeavesTheOthersMemoryWhole) {
  std::vector<std::vector<float>> ends;
  for (const bool dies : {false, true}) {
    LocalRendezvousHub hub(2);
    std::thread first([&] {
      {
        Rank doomed(SmallTraining(), 2, hub, 0);
        if (!dies) {
          EXPECT_EQ(RunGenerations(doomed.loop, kThreeMore), api::kExitDone);
          return;
        }
        EXPECT_EQ(doomed.RunOnce().end, LoopEnd::kGenerationOver);
        EXPECT_EQ(doomed.loop.state.step, 7);
        int broadcasts = 0;
        doomed.faults.before = [&](At at) {  // the run's state and the parameters are sent
          if (at != At::kBroadcast || ++broadcasts < 3) return absl::OkStatus();
          hub.EndGeneration("killed by the test");
          return absl::UnavailableError("killed by the test");
        };
        EXPECT_EQ(doomed.RunOnce().end, LoopEnd::kGenerationOver);
        EXPECT_EQ(broadcasts, 3);
      }
      Rank successor(SmallTraining(), 2, hub, 0);
      EXPECT_EQ(RunGenerations(successor.loop, kThreeMore), api::kExitDone);
    });
    Rank survivor(SmallTraining(), 2, hub, 1);
    int steps = 0;
    survivor.faults.after = [&](At at) {
      if (!dies || at != At::kStep || ++steps != 7) return absl::OkStatus();
      hub.EndGeneration("lost by the test");
      return absl::UnavailableError("lost by the test");
    };
    EXPECT_EQ(RunGenerations(survivor.loop, kThreeMore), api::kExitDone);
    first.join();
    ends.push_back(survivor.State());
  }
  EXPECT_EQ(ends[1], ends[0]);
}

}  // namespace
}  // namespace lockstep::train
