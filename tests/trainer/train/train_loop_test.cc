#include "trainer/train/train_loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/local_rendezvous.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

// Small, but with everything that could tell one rank from two: dropout and a short last batch.
api::TrainingSpec SmallTraining() {
  api::TrainingSpec training;
  training.model.layers = {
      {{"type", "Conv2D"}, {"filters", 4}, {"kernelSize", 3}, {"activation", "relu"}},
      {{"type", "MaxPooling2D"}},
      {{"type", "Flatten"}},
      {{"type", "Dropout"}, {"rate", 0.25}},
      {{"type", "Dense"}, {"units", 3}}};
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.dataset.synthetic = api::SyntheticSpec{
      .train_examples = 70, .test_examples = 33, .shape = {1, 8, 8}, .classes = 3};
  training.batch_size.global = 16;
  training.epochs = 4;
  training.optimizer.learning_rate = 0.01;
  return training;
}

// A rendezvous client that calls `at_step` each time its rank starts a step.
class Hooked final : public Rendezvous {
 public:
  Hooked(std::unique_ptr<Rendezvous> inner, std::function<void(int)> at_step)
      : inner_(std::move(inner)), at_step_(std::move(at_step)) {}
  absl::StatusOr<Membership> Join(std::int64_t step, const std::string& layout) override {
    return inner_->Join(step, layout);
  }
  void OnGenerationEnd(EndCallback callback) override {
    inner_->OnGenerationEnd(std::move(callback));
  }
  KeyValueStore& store() override { return inner_->store(); }
  void Report(const api::Progress& progress) override { inner_->Report(progress); }
  void SetActivity(api::Activity activity) override { inner_->SetActivity(activity); }
  bool StopRequested() const override {
    if (at_step_) at_step_(calls_++);
    return inner_->StopRequested();
  }
  absl::Status Finish() override { return inner_->Finish(); }

 private:
  const std::unique_ptr<Rendezvous> inner_;
  const std::function<void(int)> at_step_;
  mutable int calls_ = 0;
};

// One process' worth of a rank.
struct Rank {
  Rank(const api::TrainingSpec& training, int world, LocalRendezvousHub& hub, int rank,
       std::function<void(int)> at_step = nullptr, const std::string& backend = "reference")
      : session(*Session::Create({.training = training, .world = world, .backend = backend})),
        strategy(MakeCollectiveStrategy(session->buffer(), {.bind_address = "127.0.0.1",
                                                            .layer_starts = session->LayerStarts(),
                                                            .bucket_floats = 64})),
        rendezvous(hub.Client(rank), std::move(at_step)),
        reporter(*session, rendezvous, clock, [](const std::string&) { return std::nullopt; }),
        loop{.session = *session,
             .strategy = *strategy,
             .rendezvous = rendezvous,
             .store = nullptr,
             .saver = nullptr,
             .reporter = reporter} {
    rendezvous.OnGenerationEnd(
        [this](std::uint64_t generation, const std::string&) { strategy->Abort(generation); });
  }

  // Generation after generation; false if `die_with_generation` and the first one was cut short.
  bool Train(bool die_with_generation = false) {
    for (;;) {
      const auto membership =
          rendezvous.Join(loop.state.step, session->model().LayoutFingerprint());
      if (!membership.ok()) ADD_FAILURE() << membership.status();
      const auto end = loop.Run(*membership);
      if (end.ok() && rendezvous.Finish().ok()) return true;
      if (die_with_generation) return false;
    }
  }

  std::vector<float> Parameters() {
    const std::span<float> values = session->model().parameters();
    return {values.begin(), values.end()};
  }

  SystemClock clock;
  std::unique_ptr<Session> session;
  std::unique_ptr<Strategy> strategy;
  Hooked rendezvous;
  Reporter reporter;
  TrainLoop loop;
};

struct Outcome {
  std::vector<float> parameters;
  RunState state;
};

Outcome TrainAlone(const api::TrainingSpec& training) {
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0);
  EXPECT_TRUE(rank.Train());
  return {rank.Parameters(), rank.loop.state};
}

// Two ranks; rank `victim` loses its process (and memory) as it starts its `kill_at`-th step.
std::vector<Outcome> TrainPair(const api::TrainingSpec& training, int victim = -1,
                               int kill_at = 0) {
  LocalRendezvousHub hub(2);
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      if (index == victim) {
        Rank doomed(training, 2, hub, index, [&](int step) {
          if (step == kill_at) hub.EndGeneration("killed by the test");
        });
        EXPECT_FALSE(doomed.Train(/*die_with_generation=*/true));
      }
      Rank rank(training, 2, hub, index);
      EXPECT_TRUE(rank.Train());
      outcomes[static_cast<std::size_t>(index)] = {rank.Parameters(), rank.loop.state};
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST(TrainLoopTest, TwoRanksEndWithTheSameBitsAndAnExactLedger) {
  const std::vector<Outcome> pair = TrainPair(SmallTraining());
  EXPECT_EQ(pair[0].parameters, pair[1].parameters);
  EXPECT_EQ(pair[0].state, pair[1].state);
  EXPECT_EQ(pair[0].state.step, 20);  // ceil(70 / 16) steps, four epochs
  EXPECT_EQ(pair[0].state.ledger.epochs_checked(), 4);
  EXPECT_EQ(pair[0].state.ledger.lost_total(), 0);
  EXPECT_EQ(pair[0].state.ledger.duplicated_total(), 0);
  EXPECT_EQ(pair[0].state.evaluated_step, 20);
}

TEST(TrainLoopTest, TwoRanksComputeWhatOneDoes) {
  const Outcome alone = TrainAlone(SmallTraining());
  const std::vector<Outcome> pair = TrainPair(SmallTraining());
  EXPECT_NEAR(pair[0].state.sums.loss, alone.state.sums.loss, 1e-4 * alone.state.sums.loss);
  EXPECT_EQ(pair[0].state.sums.correct, alone.state.sums.correct);
  ASSERT_EQ(pair[0].parameters.size(), alone.parameters.size());
  for (std::size_t i = 0; i < alone.parameters.size(); ++i) {
    EXPECT_NEAR(pair[0].parameters[i], alone.parameters[i], 1e-4) << "parameter " << i;
  }
}

class KilledRankTest : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(KilledRankTest, TrainingGoesOnFromMemoryBitForBit) {
  const auto [victim, kill_at] = GetParam();
  const std::vector<Outcome> expected = TrainPair(SmallTraining());
  const std::vector<Outcome> pair = TrainPair(SmallTraining(), victim, kill_at);
  EXPECT_EQ(pair[0].parameters, expected[0].parameters);
  EXPECT_EQ(pair[1].parameters, expected[0].parameters);
  EXPECT_EQ(pair[0].state, expected[0].state);
  EXPECT_EQ(pair[1].state, expected[0].state);
}

INSTANTIATE_TEST_SUITE_P(EitherRankAtAnyTime, KilledRankTest,
                         testing::Values(std::pair(0, 0), std::pair(0, 7), std::pair(0, 19),
                                         std::pair(1, 0), std::pair(1, 5), std::pair(1, 12)));

TEST(TrainLoopTest, ANaNLossEndsTheRunOnEveryRank) {
  api::TrainingSpec training = SmallTraining();
  training.model.layers = {
      {{"type", "Flatten"}}, {{"type", "Dense"}, {"units", 8}}, {{"type", "Dense"}, {"units", 3}}};
  training.optimizer = {.name = "SGD", .learning_rate = 1e30};  // 1e30 * 1e30 is infinite
  LocalRendezvousHub hub(2);
  std::vector<LoopEnd> ends(2);
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      Rank rank(training, 2, hub, index);
      const auto membership = rank.rendezvous.Join(-1, "");
      const auto end = rank.loop.Run(*membership);
      ASSERT_TRUE(end.ok()) << end.status();
      ends[static_cast<std::size_t>(index)] = *end;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ends[0], LoopEnd::kDiverged);
  EXPECT_EQ(ends[1], LoopEnd::kDiverged);
}

TEST(TrainLoopTest, AStopRequestStopsAllRanksAtTheSameStep) {
  LocalRendezvousHub hub(2);
  std::vector<std::int64_t> steps(2);
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index) {
    threads.emplace_back([&, index] {
      Rank rank(SmallTraining(), 2, hub, index, [&, index](int step) {
        if (index == 1 && step == 5) hub.RequestStop();
      });
      const auto membership = rank.rendezvous.Join(-1, "");
      const auto end = rank.loop.Run(*membership);
      ASSERT_TRUE(end.ok()) << end.status();
      EXPECT_EQ(*end, LoopEnd::kStopped);
      steps[static_cast<std::size_t>(index)] = rank.loop.state.step;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_GE(steps[0], 5);
}

// The global losses of the first steps, as rank 0 of `world` sees them.
std::vector<double> Losses(const api::TrainingSpec& training, int world, int steps) {
  LocalRendezvousHub hub(world);
  std::vector<double> losses;
  std::vector<std::thread> threads;
  for (int index = 0; index < world; ++index) {
    threads.emplace_back([&, index] {
      Rank rank(training, world, hub, index, nullptr, "cpu");
      rank.session->model().InitializeParameters();
      const auto membership = rank.rendezvous.Join(0, "");
      ASSERT_TRUE(rank.strategy->Connect(*membership, rank.rendezvous.store()).ok());
      const auto loader =
          Loader::Create(rank.session->train_data(), {.plan = rank.session->plan(), .rank = index});
      PhaseSeconds seconds;
      for (int step = 0; step < steps; ++step) {
        const auto totals = TrainStep(*rank.session, *rank.strategy, *loader, step, false, seconds);
        ASSERT_TRUE(totals.ok()) << totals.status();
        if (index == 0) losses.push_back(totals->loss / totals->examples);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return losses;
}

TEST(TrainLoopTest, CoreCnnOnTwoRanksHasTheLossesOfOneOverTwentySteps) {
  api::TrainingSpec training;
  training.model.name = "core-cnn";
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.dataset.synthetic = api::SyntheticSpec{.train_examples = 2560, .test_examples = 32};
  training.batch_size.global = 128;
  training.steps = 20;
  // As in examples/mnist.yaml. Without the warm-up Adam's first updates are of the same size
  // whatever the gradient's, which makes much of a rounding where the gradient is next to nothing.
  training.learning_rate_schedule = {.type = api::ScheduleType::kCosine, .warmup_steps = 50};
  if (const char* mnist = std::getenv("LOCKSTEP_TEST_MNIST")) {
    training.dataset = {.path = mnist};
  }
  const std::vector<double> one = Losses(training, 1, 20);
  const std::vector<double> two = Losses(training, 2, 20);
  ASSERT_EQ(one.size(), 20u);
  ASSERT_EQ(two.size(), 20u);
  for (std::size_t step = 0; step < one.size(); ++step) {
    EXPECT_NEAR(two[step], one[step], 1e-4 * one[step]) << "step " << step;
  }
}

TEST(SnapshotTest, KilledAndResumedEqualsUninterruptedBitForBit) {
  api::TrainingSpec training = SmallTraining();
  const Outcome whole = TrainAlone(training);

  api::TrainingSpec half = training;
  half.epochs = std::nullopt;
  half.steps = 7;  // in the middle of the second epoch
  LocalRendezvousHub first_hub(1);
  Rank first(half, 1, first_hub, 0);
  EXPECT_TRUE(first.Train());
  RunState at_seven = first.loop.state;
  at_seven.evaluated_step = -1;
  const Snapshot snapshot = MakeSnapshot(*first.session, at_seven);

  LocalRendezvousHub second_hub(1);
  Rank second(training, 1, second_hub, 0);
  ASSERT_TRUE(RestoreSnapshot(snapshot, *second.session, second.loop.state).ok());
  EXPECT_TRUE(second.Train());
  EXPECT_EQ(second.Parameters(), whole.parameters);
  EXPECT_EQ(second.loop.state, whole.state);
}

TEST(SnapshotTest, AnotherBatchSizeIsRefusedByName) {
  LocalRendezvousHub hub(1);
  Rank rank(SmallTraining(), 1, hub, 0);
  const Snapshot snapshot = MakeSnapshot(*rank.session, {.step = 0});
  api::TrainingSpec other = SmallTraining();
  other.batch_size.global = 32;
  Rank second(other, 1, hub, 0);
  const absl::Status status = RestoreSnapshot(snapshot, *second.session, second.loop.state);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("globalBatch = 16"), std::string::npos) << status;
  EXPECT_EQ(second.loop.state.step, -1);
}

}  // namespace
}  // namespace lockstep::train
