#include "trainer/optim/state_shares.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/trainer/backend/backends_under_test.h"
#include "tests/trainer/nn/tested_model.h"
#include "trainer/check/device_array.h"
#include "trainer/core/arena.h"
#include "trainer/optim/optimizer.h"

namespace lockstep::train {
namespace {

using SharesOf = std::vector<FlatRange>;

std::vector<TensorSlot> TensorsAt(const std::vector<std::int64_t>& offsets) {
  std::vector<TensorSlot> tensors;
  for (const std::int64_t offset : offsets) tensors.push_back({.offset = offset});
  return tensors;
}

TEST(PlanStateSharesTest, SharesAreEqualToAnAlignedValue) {
  EXPECT_EQ(PlanStateShares({}, 96, 1, false), (SharesOf{{0, 96}}));
  EXPECT_EQ(PlanStateShares({}, 96, 2, false), (SharesOf{{0, 48}, {48, 96}}));
  EXPECT_EQ(PlanStateShares({}, 100, 3, false), (SharesOf{{0, 32}, {32, 64}, {64, 100}}));
  EXPECT_EQ(PlanStateShares({}, 20, 4, false), (SharesOf{{0, 0}, {0, 0}, {0, 0}, {0, 20}}))
      << "a tensor of a few values is not worth a cut";
}

TEST(PlanStateSharesTest, ALargeModelDividesWithoutOverflow) {
  const std::int64_t floats = std::int64_t{1} << 62U;
  const auto shares = PlanStateShares({}, floats, 4096, false);
  EXPECT_EQ(shares.at(4095).begin, floats / 4096 * 4095);
}

TEST(PlanStateSharesTest, WholeTensorsStayWhole) {
  const auto tensors = TensorsAt({0, 16, 160, 176, 192});
  EXPECT_EQ(PlanStateShares(tensors, 208, 2, true), (SharesOf{{0, 160}, {160, 208}}));
  EXPECT_EQ(PlanStateShares(tensors, 208, 4, true),
            (SharesOf{{0, 16}, {16, 160}, {160, 160}, {160, 208}}))
      << "a share may be empty beside a tensor that is larger than a share";
}

TEST(SegmentsOfShareTest, AreThoseThatItCuts) {
  const std::vector<OptimizerSegment> segments = {
      {.begin = 0, .end = 10}, {.begin = 10, .end = 20, .decays = false}, {.begin = 20, .end = 30}};
  const auto cut = SegmentsOfShare(segments, {12, 25});
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[0].begin, 0);
  EXPECT_EQ(cut[0].end, 8);
  EXPECT_FALSE(cut[0].decays);
  EXPECT_EQ(cut[1].begin, 8);
  EXPECT_EQ(cut[1].end, 13);
  EXPECT_TRUE(cut[1].decays);
  EXPECT_TRUE(SegmentsOfShare(segments, {20, 20}).empty());
  EXPECT_TRUE(SegmentsOfShare({}, {0, 20}).empty());
}

TEST(MatricesOfShareTest, AreThoseInItFromItsBeginning) {
  const std::vector<MatrixRange> matrices = {{.begin = 0, .rows = 2, .columns = 8},
                                             {.begin = 32, .rows = 4, .columns = 4}};
  EXPECT_TRUE(MatricesOfShare(matrices, {16, 32}).empty());
  const auto found = MatricesOfShare(matrices, {16, 48});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].begin, 16);
  EXPECT_EQ(found[0].rows, 4);
  EXPECT_EQ(found[0].columns, 4);
}

std::vector<api::OptimizerSpec> AllRules() {
  std::vector<api::OptimizerSpec> specs = {
      {.name = "SGD"},     {.name = "SGD", .momentum = 0.9, .nesterov = true},
      {.name = "Adam"},    {.name = "RMSprop", .momentum = 0.9},
      {.name = "Adagrad"}, {.name = "LARS", .momentum = 0.9},
      {.name = "LAMB"},    {.name = "Muon", .adam_lr_ratio = 0.5}};
  for (api::OptimizerSpec& spec : specs) {
    spec.weight_decay = 0.01;
    spec.weight_decay_exclude = {"bias"};
  }
  return specs;
}

std::vector<float> Noise(std::size_t size, int stream) {
  std::vector<float> values(size);
  std::uint32_t state = 12345u + static_cast<std::uint32_t>(stream);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8U) / static_cast<float>(1U << 24U) - 0.5f;
  }
  return values;
}

// Two models with the same values: one is updated as a whole, the other in shares.
class SharedUpdateTest : public ::testing::TestWithParam<std::string> {
 protected:
  static TestedModel Tested() {
    return TestedModel({LayerJson("Flatten"), LayerJson("Dense", {{"units", 37}}),
                        LayerJson("Dense", {{"units", 3}})},
                       {.batch = 2, .input = {1, 5, 5}, .classes = 3}, GetParam());
  }
  static void Upload(const std::vector<float>& values, std::span<float> to, TestedModel& tested) {
    tested.backend().Upload(values.data(), to.data(), to.size_bytes());
  }
  static void Update(Optimizer& optimizer, TestedModel& tested, int step) {
    const std::span<float> gradients = tested.model().gradients();
    Upload(Noise(gradients.size(), step), gradients, tested);
    const OptimizerStep settings{.learning_rate = 0.05f, .step = step, .gradient_scale = 0.75f};
    tested.backend().Upload(&settings, optimizer.step(), sizeof(settings));
    optimizer.Step();
  }
};

// Some ranks have no share, because there are more ranks than tensors.
TEST_P(SharedUpdateTest, SharesComputeTheBitsOfTheWhole) {
  const std::optional<api::EmaSpec> ema = api::EmaSpec{.decay = 0.75};
  for (const api::OptimizerSpec& spec : AllRules()) {
    for (const int ranks : {1, 2, 3, 4, 9}) {
      SCOPED_TRACE(spec.name + " of " + std::to_string(ranks));
      TestedModel whole = Tested(), shared = Tested();
      const std::span<float> parameters = shared.model().parameters();
      for (TestedModel* tested : {&whole, &shared}) {
        Upload(Noise(parameters.size(), 0), tested->model().parameters(), *tested);
      }
      const auto make = [&](TestedModel& tested, const std::optional<FlatRange>& share) {
        return Optimizer::Create(spec, tested.model(), tested.backend(), OptimizerRole::kUpdates,
                                 ema, share)
            .value();
      };
      const auto expected = make(whole, std::nullopt);
      std::vector<std::unique_ptr<Optimizer>> optimizers;
      for (const FlatRange& share :
           PlanStateShares(shared.model().parameter_slots(), std::ssize(parameters), ranks,
                           api::NeedsWholeTensors(spec))) {
        optimizers.push_back(make(shared, share));
      }
      for (int step = 1; step <= 3; ++step) {
        Update(*expected, whole, step);
        for (const auto& optimizer : optimizers) Update(*optimizer, shared, step);
      }
      EXPECT_EQ(shared.Parameters(), whole.Parameters());
      for (int i = 0; i < expected->slots(); ++i) {
        std::vector<float> slot;
        for (const auto& optimizer : optimizers) {
          const std::vector<float> part = Download(shared.backend(), optimizer->slot(i));
          slot.insert(slot.end(), part.begin(), part.end());
        }
        EXPECT_EQ(slot, Download(whole.backend(), expected->slot(i))) << i;
      }
    }
  }
}

TEST_P(SharedUpdateTest, AShareTakesItsShareOfTheMemory) {
  TestedModel tested = Tested();
  const std::size_t parameters = tested.model().parameters().size_bytes();
  const auto bytes = [&](const std::optional<FlatRange>& share) {
    return Optimizer::Create({.name = "Adam"}, tested.model(), tested.backend(),
                             OptimizerRole::kUpdates, {}, share)
        .value()
        ->MemoryBytes();
  };
  const FlatRange half{0, std::ssize(tested.model().parameters()) / 2 / 16 * 16};
  EXPECT_GE(bytes(std::nullopt), 2 * parameters);
  EXPECT_LT(bytes(half), parameters + 3 * kArenaAlignment);
}

INSTANTIATE_TEST_SUITE_P(Backends, SharedUpdateTest, ::testing::ValuesIn(kBackendsUnderTest),
                         [](const auto& name) { return TestName(name.param); });

}  // namespace
}  // namespace lockstep::train
