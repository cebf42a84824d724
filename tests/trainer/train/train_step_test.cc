#include "trainer/train/train_step.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

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

// One rank of two. What it offers is recorded; what the other one offers is given by the test.
class ScriptedStrategy final : public Strategy {
 public:
  explicit ScriptedStrategy(GradientBuffer& buffer) : buffer_(buffer) {}
  absl::Status Connect(const Membership&, KeyValueStore&) override { return absl::OkStatus(); }
  absl::Status Broadcast(std::span<std::byte>, int) override { return absl::OkStatus(); }
  absl::Status Sum(std::span<float>) override { return absl::OkStatus(); }
  void GradientsReady(std::int64_t) override {}
  absl::Status FinishGradients() override {
    offered.assign(buffer_.data(), buffer_.data() + buffer_.size());
    if (!peer) return absl::UnavailableError("the other rank is gone");
    for (std::size_t i = 0; i < buffer_.size(); ++i) buffer_.data()[i] += (*peer)[i];
    return absl::OkStatus();
  }
  double ExposedSeconds() const override { return 0; }
  std::string CommunicatorName() const override { return "scripted"; }
  void Abort(std::uint64_t) override {}

  std::vector<float> offered;
  const std::vector<float>* peer = nullptr;  // null: the sum fails

 private:
  GradientBuffer& buffer_;
};

struct Rank {
  explicit Rank(int rank)
      : session(*Session::Create(
            {.training = TrainingWithBatchNorm(), .world = 2, .backend = "reference"})),
        strategy(session->buffer()),
        loader(Loader::Create(session->train_data(),
                              {.plan = session->plan(), .rank = rank, .prefetch = 0})) {}

  // Whether the step was applied.
  bool Step(std::int64_t step) {
    loader->Seek(step);
    return std::holds_alternative<StepTotals>(
        TrainStep(*session, strategy, *loader, step, false, phases));
  }
  std::vector<float> States() const {
    const std::span<float> states = session->model().states();
    return {states.begin(), states.end()};
  }
  std::vector<float> Parameters() const {
    const std::span<float> values = session->model().parameters();
    return {values.begin(), values.end()};
  }
  // Of the buffer that it offered last.
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

TEST(TrainStepTest, AStepWhoseSumFailsLeavesNoTrace) {
  Rank rank(0);
  const std::vector<float> states = rank.States(), parameters = rank.Parameters();
  ASSERT_FALSE(rank.Step(0));
  const std::vector<float> offered = rank.strategy.offered;
  EXPECT_EQ(rank.States(), states) << "a repeated step must not count its batch twice";
  EXPECT_EQ(rank.Parameters(), parameters);
  ASSERT_FALSE(rank.Step(0));
  EXPECT_EQ(rank.strategy.offered, offered);
}

}  // namespace
}  // namespace lockstep::train
