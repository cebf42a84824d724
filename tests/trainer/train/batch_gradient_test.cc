#include "trainer/train/batch_gradient.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/trainer/train/rank.h"

namespace lockstep::train {
namespace {

api::TrainingSpec NormalizedTraining(int accumulation) {
  api::TrainingSpec training = SmallTraining();
  api::Json layers = *training.model.layers;
  layers.insert(layers.begin() + 1, api::Json{{"type", "BatchNormalization"}, {"momentum", 0.8}});
  training.model.layers = std::move(layers);
  training.gradient_accumulation = accumulation;
  return training;
}

// What an update keeps of the states that the task began with, and what it adds, are the states
// that the task has ended with.
TEST(BatchGradientTest, StatesAreTheShareThatIsKeptAndWhatIsAdded) {
  for (const int accumulation : {1, 2}) {
    LocalRendezvousHub hub(1);
    Rank rank(NormalizedTraining(accumulation), 1, hub, 0);
    Session& session = rank.loop.session;
    BatchGradient gradient(session, rank.loop.phases, /*keeps_states=*/true);
    const std::span<float> states = session.model().states();
    ASSERT_FALSE(states.empty());
    std::vector<float> expected(states.begin(), states.end());
    ASSERT_TRUE(gradient.Compute({.step = 0, .part = 0}).ok());
    const std::vector<KeptStates> runs = KeptStatesOf(session);
    ASSERT_EQ(runs.size(), 1u) << "all layers keep the same";
    EXPECT_FLOAT_EQ(runs[0].kept, accumulation == 1 ? 0.8f : 0.64f);
    const float* const added = session.buffer().data() + session.model().gradients().size();
    for (std::size_t i = 0; i < static_cast<std::size_t>(runs[0].end); ++i) {
      expected[i] = runs[0].kept * expected[i] + added[i];
      EXPECT_NEAR(expected[i], states[i], 1e-6);
    }
    for (const TensorSlot& slot : session.model().state_slots()) {
      EXPECT_NE(added[slot.offset], 0) << slot.name << " of a batch";
    }
  }
}

// Layers that keep different shares, and whose tensors have padding between them.
TEST(BatchGradientTest, EachLayerKeepsItsOwnShare) {
  api::TrainingSpec training = SmallTraining();
  api::Json layers = *training.model.layers;
  layers.insert(layers.begin() + 1, api::Json{{"type", "BatchNormalization"}, {"momentum", 0.9}});
  layers.insert(layers.begin(), api::Json{{"type", "BatchNormalization"}, {"momentum", 0.8}});
  training.model.layers = std::move(layers);
  LocalRendezvousHub hub(1);
  Rank rank(training, 1, hub, 0);
  Session& session = rank.loop.session;
  BatchGradient gradient(session, rank.loop.phases, /*keeps_states=*/true);
  const std::span<float> states = session.model().states();
  const std::vector<float> before(states.begin(), states.end());
  ASSERT_TRUE(gradient.Compute({.step = 0, .part = 0}).ok());
  const std::vector<KeptStates> runs = KeptStatesOf(session);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_FLOAT_EQ(runs[0].kept, 0.8f);
  EXPECT_FLOAT_EQ(runs[1].kept, 0.9f);
  const float* const added = session.buffer().data() + session.model().gradients().size();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const float kept = static_cast<std::int64_t>(i) < runs[0].end ? 0.8f : 0.9f;
    EXPECT_NEAR(kept * before[i] + added[i], states[i], 1e-6) << i;
  }
}

}  // namespace
}  // namespace lockstep::train
