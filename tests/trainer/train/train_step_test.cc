#include "trainer/train/train_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/trainer/train/run_step.h"
#include "trainer/data/loader.h"

namespace lockstep::train {
namespace {

api::TrainingSpec TrainingWithBatchNorm() {
  api::TrainingSpec training;
  training.model.layers = api::Json::array({{{"type", "Conv2D"}, {"filters", 4}, {"kernelSize", 3}},
                                            {{"type", "BatchNormalization"}},
                                            {{"type", "Flatten"}},
                                            {{"type", "Dense"}, {"units", 3}}});
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.dataset.synthetic = api::SyntheticSpec{
      .train_examples = 64, .test_examples = 32, .shape = {1, 8, 8}, .classes = 3};
  training.batch_size.global = 16;
  training.epochs = 1;
  training.evaluation.enabled = false;
  return training;
}

// One rank of several. What it offers is recorded; what the others offer is given by the test.
class ScriptedStrategy final : public Strategy {
 public:
  explicit ScriptedStrategy(GradientBuffer& buffer) : buffer_(buffer) {}
  absl::Status Connect(const Membership&, KeyValueStore&) override { return absl::OkStatus(); }
  void Disconnect() override {}
  bool TrustsAddresses() const override { return true; }
  absl::Status Broadcast(std::span<std::byte>, int) override { return absl::OkStatus(); }
  absl::Status Sum(std::span<float>) override { return absl::OkStatus(); }
  void GradientsReady(std::int64_t) override {}
  absl::Status SumStatus() const override { return absl::OkStatus(); }
  absl::Status FinishGradients() override {
    offered.assign(buffer_.data(), buffer_.data() + buffer_.size());
    if (!peer) return absl::UnavailableError("the other rank is gone");
    for (std::size_t i = 0; i < buffer_.size(); ++i) buffer_.data()[i] += (*peer)[i];
    return absl::OkStatus();
  }
  absl::Status BroadcastShares(std::span<const FlatRange>) override { return absl::OkStatus(); }
  absl::Status Barrier() override { return absl::OkStatus(); }
  void StepEnded(const absl::Status& summed) override { ended.push_back(summed); }
  std::string CommunicatorName() const override { return "scripted"; }
  void Abort(std::uint64_t) override {}

  std::vector<float> offered;
  std::vector<absl::Status> ended;           // what StepEnded was told
  const std::vector<float>* peer = nullptr;  // null: the sum fails

 private:
  GradientBuffer& buffer_;
};

struct Rank {
  explicit Rank(int rank, const api::TrainingSpec& training = TrainingWithBatchNorm(),
                int world = 2)
      : session(*Session::Create({.training = training, .world = world, .backend = "reference"})),
        strategy(session->buffer()),
        loader(Loader::Create(session->train_data(),
                              {.plan = session->plan(), .rank = rank, .prefetch = 0})) {}

  // Whether the step was applied.
  bool Step(std::int64_t step) {
    loader->Seek(step);
    session->OpenGate();
    return std::holds_alternative<StepTotals>(
        RunStep(*session, strategy, *loader, {.step = step}, phases));
  }
  // Requires: the step is applied or skipped.
  StepTotals TotalsOfStep(std::int64_t step, bool may_skip) {
    loader->Seek(step);
    session->OpenGate();
    return std::get<StepTotals>(RunStep(*session, strategy, *loader,
                                        {.step = step, .may_skip_in_a_row = may_skip ? 1 : 0},
                                        phases));
  }
  std::vector<float> States() const {
    const std::span<float> states = session->model().states();
    return {states.begin(), states.end()};
  }
  std::vector<float> Parameters() const {
    const std::span<float> values = session->model().parameters();
    return {values.begin(), values.end()};
  }
  // The states in the buffer that it offered last.
  std::vector<float> OfferedStates() const {
    const auto first =
        strategy.offered.begin() + static_cast<std::ptrdiff_t>(session->model().gradients().size());
    return {first, first + static_cast<std::ptrdiff_t>(session->model().states().size())};
  }

  std::unique_ptr<Session> session;
  ScriptedStrategy strategy;
  std::unique_ptr<Loader> loader;
  SystemClock clock;
  PhaseClock phases{clock};
};

// With CentralStorage, all others wait for rank 0 meanwhile.
TEST(TrainStepTest, ARankThatUpdatesWaitsForNobody) {
  Rank rank(0);
  ASSERT_FALSE(rank.Step(0));
  const std::vector<float> offered = rank.strategy.offered;
  rank.strategy.peer = &offered;
  std::vector<api::StepPart> parts;
  rank.loader->Seek(0);
  rank.session->OpenGate();
  const StepOptions options{.step = 0,
                            .entered = [&](api::StepPart part) { parts.push_back(part); }};
  ASSERT_TRUE(std::holds_alternative<StepTotals>(
      RunStep(*rank.session, rank.strategy, *rank.loader, options, rank.phases)));
  using enum api::StepPart;
  EXPECT_EQ(parts, (std::vector{kInput, kCompute, kPeers, kCompute, kPeers}));
}

TEST(TrainStepTest, RunningStatisticsBecomeTheMeanOverRanks) {
  Rank first(0), second(1);
  ASSERT_FALSE(second.Step(0));  // offers, and no more
  first.strategy.peer = &second.strategy.offered;
  ASSERT_TRUE(first.Step(0));
  second.strategy.peer = &first.strategy.offered;
  ASSERT_TRUE(second.Step(0));

  EXPECT_NE(first.OfferedStates(), second.OfferedStates()) << "each measures its own rows";
  EXPECT_EQ(first.States(), second.States()) << "bit for bit";
  EXPECT_EQ(first.Parameters(), second.Parameters()) << "bit for bit";
  for (std::size_t i = 0; i < first.States().size(); ++i) {
    EXPECT_FLOAT_EQ(first.States()[i], first.OfferedStates()[i] + second.OfferedStates()[i]);
  }
}

TEST(TrainStepTest, TheStrategyIsToldWhatBecameOfEachStep) {
  Rank rank(0);
  ASSERT_FALSE(rank.Step(0));
  std::vector<float> peer = rank.strategy.offered;
  rank.strategy.peer = &peer;
  ASSERT_TRUE(rank.Step(0));
  peer.front() = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(rank.Step(1)) << "diverged, but summed";
  ASSERT_EQ(rank.strategy.ended.size(), 3u);
  EXPECT_TRUE(absl::IsUnavailable(rank.strategy.ended[0])) << rank.strategy.ended[0];
  EXPECT_TRUE(rank.strategy.ended[1].ok() && rank.strategy.ended[2].ok());
}

TEST(TrainStepTest, AStepWhoseSumFailsLeavesNoTrace) {
  for (const int parts : {1, 3}) {
    SCOPED_TRACE(parts);
    api::TrainingSpec training = TrainingWithBatchNorm();
    training.gradient_accumulation = parts;
    Rank rank(0, training);
    ASSERT_EQ(rank.session->parts(), parts);
    const std::vector<float> states = rank.States(), parameters = rank.Parameters();
    ASSERT_FALSE(rank.Step(0));
    const std::vector<float> offered = rank.strategy.offered;
    EXPECT_EQ(rank.States(), states) << "a repeated step must not count its batch twice";
    EXPECT_EQ(rank.Parameters(), parameters);
    ASSERT_FALSE(rank.Step(0));
    EXPECT_EQ(rank.strategy.offered, offered);
  }
}

// A peer's offer that changes nothing but the sum's element `at`, to which it adds `value`.
std::vector<float> Offer(const Rank& rank, std::size_t at, float value) {
  std::vector<float> offer(rank.session->buffer().size(), 0.0f);
  offer.at(at) = value;
  return offer;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

TEST(TrainStepTest, AGradientAboveTheNormIsScaledDownToIt) {
  api::TrainingSpec training = TrainingWithBatchNorm();
  training.optimizer = {.name = "SGD", .learning_rate = 1};
  Rank free(0, training);
  const std::vector<float> start = free.Parameters(), offer = Offer(free, 0, 0);
  free.strategy.peer = &offer;
  const double norm = free.TotalsOfStep(0, false).gradient_norm;
  ASSERT_GT(norm, 0);
  EXPECT_NEAR(Distance(free.Parameters(), start), norm, 1e-5 * norm);

  training.optimizer.global_clip_norm = norm / 4;
  Rank clipped(0, training);
  clipped.strategy.peer = &offer;
  EXPECT_EQ(clipped.TotalsOfStep(0, false).gradient_norm, norm) << "of what was summed";
  EXPECT_NEAR(Distance(clipped.Parameters(), start), norm / 4, 1e-5 * norm);

  training.optimizer.global_clip_norm = norm * 1.01;
  Rank below(0, training);
  below.strategy.peer = &offer;
  ASSERT_TRUE(below.Step(0));
  EXPECT_EQ(below.Parameters(), free.Parameters()) << "bit for bit";
}

TEST(TrainStepTest, AStepThatIsNotFiniteIsSkippedOrEndsTheRun) {
  Rank rank(0), fresh(0);
  const std::size_t loss = rank.session->buffer().size() - sizeof(StepTail) / sizeof(float);
  const std::vector<float> good = Offer(rank, 0, 0);
  for (const std::vector<float>& bad : {Offer(rank, 0, NAN), Offer(rank, loss, INFINITY)}) {
    rank.strategy.peer = &bad;
    const std::vector<float> states = rank.States(), parameters = rank.Parameters();
    EXPECT_FALSE(rank.Step(0)) << "it must not be skipped";
    const StepTotals totals = rank.TotalsOfStep(0, /*may_skip=*/true);
    EXPECT_TRUE(totals.skipped);
    EXPECT_EQ(totals.loss, 0);
    EXPECT_EQ(totals.correct, 0);
    EXPECT_EQ(totals.examples, 8) << "this rank's; the other offered none";
    EXPECT_EQ(rank.States(), states);
    EXPECT_EQ(rank.Parameters(), parameters);
  }
  rank.strategy.peer = fresh.strategy.peer = &good;
  EXPECT_FALSE(rank.TotalsOfStep(1, /*may_skip=*/true).skipped);
  ASSERT_TRUE(fresh.Step(1));
  EXPECT_EQ(rank.States(), fresh.States()) << "bit for bit";
  EXPECT_EQ(rank.Parameters(), fresh.Parameters()) << "bit for bit";
}

// Adam's first update moves a parameter by the learning rate, however many steps were skipped
// before: its corrections are those of one gradient.
TEST(TrainStepTest, ASkippedStepIsNoUpdateOfTheOptimizer) {
  api::TrainingSpec training = TrainingWithBatchNorm();
  training.optimizer = {.name = "Adam", .learning_rate = 0.5};
  Rank rank(0, training);
  const std::vector<float> bad = Offer(rank, 0, NAN), good = Offer(rank, 0, 0);
  const std::vector<float> start = rank.Parameters();
  for (const std::int64_t step : {0, 1, 2}) {
    rank.strategy.peer = step < 2 ? &bad : &good;
    rank.loader->Seek(step);
    const auto totals =
        std::get<StepTotals>(RunStep(*rank.session, rank.strategy, *rank.loader,
                                     {.step = step, .may_skip_in_a_row = 2}, rank.phases));
    EXPECT_EQ(totals.skipped, step < 2);
  }
  float largest = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    largest = std::max(largest, std::abs(rank.Parameters()[i] - start[i]));
  }
  EXPECT_NEAR(largest, 0.5f, 1e-3f);
}

api::TrainingSpec InParts(int parts) {
  api::TrainingSpec training = TrainingWithBatchNorm();
  api::Json layers = *training.model.layers;
  layers.at(1) = {{"type", "Dropout"}, {"rate", 0.3}};  // batch normalization sees parts
  training.model.layers = std::move(layers);
  training.dataset.synthetic->train_examples = 60;  // the last step has 12 of 16
  training.gradient_accumulation = parts;
  return training;
}

// 8 rows in 3 parts of 2, 3 and 3; in 8; in more parts than there are rows; and in 5 parts of 2,
// one of which would be empty.
TEST(TrainStepTest, PartsGiveTheGradientsOfTheWhole) {
  for (const std::int64_t step : {0, 3}) {
    for (const int rank : {0, 1}) {
      Rank whole(rank, InParts(1));
      ASSERT_FALSE(whole.Step(step));
      for (const auto& [parts, used] :
           std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {8, 8}, {50, 8}, {5, 4}}) {
        Rank in_parts(rank, InParts(parts));
        EXPECT_EQ(in_parts.session->parts(), used);
        ASSERT_FALSE(in_parts.Step(step));
        const std::vector<float>&found = in_parts.strategy.offered,
              &expected = whole.strategy.offered;
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_NEAR(found[i], expected[i], 2e-6f * std::max(1.0f, std::abs(expected[i])))
              << "step " << step << ", rank " << rank << ", " << parts << " parts, at " << i;
        }
      }
    }
  }
}

// Batch normalization takes the statistics of each part, as of the batches of two ranks that have
// half of the rows each. A running one moves once for each part.
void ExpectPartsAsRanks(std::int64_t train_examples, std::int64_t step) {
  constexpr float kMomentum = 0.75f;
  api::TrainingSpec training = TrainingWithBatchNorm();
  api::Json layers = *training.model.layers;
  layers.at(1)["momentum"] = kMomentum;
  training.model.layers = std::move(layers);
  training.dataset.synthetic->train_examples = train_examples;
  Rank first(0, training, 4), second(1, training, 4);
  training.gradient_accumulation = 2;
  Rank both(0, training, 2);
  ASSERT_EQ(both.session->parts(), 2);
  const std::vector<float> start = both.States();
  for (Rank* rank : {&first, &second, &both}) ASSERT_FALSE(rank->Step(step));

  const std::vector<float>&found = both.strategy.offered, &one = first.strategy.offered,
        &two = second.strategy.offered;
  for (std::size_t i = 0; i < both.session->model().gradients().size(); ++i) {
    EXPECT_NEAR(found[i], one[i] + two[i], 2e-6f * std::max(1.0f, std::abs(found[i]))) << i;
  }
  for (std::size_t i = 0; i < start.size(); ++i) {
    // What ranks offer are their shares of a mean: a half, and quarters.
    const float after_first = 4 * first.OfferedStates()[i];
    const float moved_by_second = 4 * second.OfferedStates()[i] - kMomentum * start[i];
    EXPECT_NEAR(2 * both.OfferedStates()[i], kMomentum * after_first + moved_by_second, 1e-6f) << i;
  }
}

TEST(TrainStepTest, PartsAreNormalizedAsTheBatchesOfMoreRanks) {
  ExpectPartsAsRanks(/*train_examples=*/64, /*step=*/0);
}

// The last of 58 samples are 10: 5 of each of two ranks, which are parts of 2 and 3, as of four
// ranks, not of 4 and 1.
TEST(TrainStepTest, PartsShareAShortStepEqually) {
  ExpectPartsAsRanks(/*train_examples=*/58, /*step=*/3);
}

TEST(TrainStepTest, APartTakesLessMemory) {
  const Rank whole(0, InParts(1)), in_parts(0, InParts(4));
  EXPECT_LT(in_parts.session->model().Memory().total(),
            whole.session->model().Memory().total() / 2);
}

}  // namespace
}  // namespace lockstep::train
