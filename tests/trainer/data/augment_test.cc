#include "trainer/data/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "trainer/data/formats/synthetic.h"

namespace lockstep::train {
namespace {

using Image = std::vector<std::uint8_t>;

const Shape kShape{1, 3, 4};
const Image kImage = {1, 2,  3,  4,  //
                      5, 6,  7,  8,  //
                      9, 10, 11, 12};

struct Case {
  std::string name;
  Augmentation change;
  Image expected;
};

TEST(AugmentTest, MovesThenFlipsThenBlackens) {
  const std::vector<Case> cases = {
      {"nothing", {}, kImage},
      {"down", {.down = 1}, {0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}},
      {"up", {.down = -2}, {9, 10, 11, 12, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"right", {.right = 1}, {0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11}},
      {"left", {.right = -3}, {4, 0, 0, 0, 8, 0, 0, 0, 12, 0, 0, 0}},
      {"down and left", {.down = 1, .right = -1}, {0, 0, 0, 0, 2, 3, 4, 0, 6, 7, 8, 0}},
      {"up and right", {.down = -1, .right = 2}, {0, 0, 5, 6, 0, 0, 9, 10, 0, 0, 0, 0}},
      {"out of the image", {.down = 3, .right = -4}, Image(12, 0)},
      {"flip", {.flip = true}, {4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9}},
      {"right, then flip", {.right = 1, .flip = true}, {3, 2, 1, 0, 7, 6, 5, 0, 11, 10, 9, 0}},
      {"a square",
       {.square_top = 1, .square_left = 1, .square_size = 2},
       {1, 2, 3, 4, 5, 0, 0, 8, 9, 0, 0, 12}},
      {"a square over the first corner",
       {.square_top = -1, .square_left = -1, .square_size = 2},
       {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
      {"a square over the last corner",
       {.square_top = 2, .square_left = 2, .square_size = 3},
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0}},
      {"flip, then a square",
       {.flip = true, .square_top = 0, .square_left = 0, .square_size = 1},
       {0, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9}}};
  for (const Case& each : cases) {
    Image image = kImage;
    Augment(each.change, kShape, image);
    EXPECT_EQ(image, each.expected) << each.name;
  }
}

TEST(AugmentTest, ChangesEveryChannelAlike) {
  Image image = {1, 2, 3, 4, 5, 6, 7, 8};
  Augment({.right = 1, .flip = true, .square_top = 1, .square_left = 0, .square_size = 1},
          Shape{2, 2, 2}, image);
  EXPECT_THAT(image, ::testing::ElementsAre(1, 0, 0, 0, 5, 0, 0, 0));
}

api::AugmentSpec EveryChange() {
  return {.random_flip = api::RandomFlip::kHorizontal,
          .random_crop = api::RandomCropSpec{2},
          .cutout = api::CutoutSpec{3}};
}

TEST(AugmentTest, DrawsEveryChangeEquallyOften) {
  constexpr int kDraws = 10'000;
  std::map<std::int64_t, int> down, right, flips, tops, lefts;
  for (int position = 0; position < kDraws; ++position) {
    const Augmentation change = DrawAugmentation(EveryChange(), kShape, 1, 5, position);
    EXPECT_EQ(change.square_size, 3);
    ++down[change.down];
    ++right[change.right];
    ++flips[change.flip ? 1 : 0];
    ++tops[change.square_top];
    ++lefts[change.square_left];
  }
  const auto expect_even = [&](const std::map<std::int64_t, int>& counts, std::int64_t first,
                               std::int64_t last) {
    ASSERT_EQ(counts.size(), static_cast<std::size_t>(last - first + 1));
    EXPECT_EQ(counts.begin()->first, first);
    EXPECT_EQ(counts.rbegin()->first, last);
    for (const auto& [value, count] : counts) {
      EXPECT_NEAR(count, kDraws / static_cast<double>(counts.size()), 250)
          << value;  // 5 standard deviations
    }
  };
  expect_even(down, -2, 2);
  expect_even(right, -2, 2);
  expect_even(flips, 0, 1);
  expect_even(tops, -1, 1);   // centers 0 to 2
  expect_even(lefts, -1, 2);  // centers 0 to 3
}

TEST(AugmentTest, DrawsAgainForEachSeedEpochAndPosition) {
  const auto draw = [](std::uint64_t seed, std::uint64_t epoch, std::int64_t position) {
    return DrawAugmentation(EveryChange(), Shape{1, 1000, 1000}, seed, epoch, position);
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(2, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
}

TEST(AugmentTest, DrawsNothingThatIsNotAskedFor) {
  EXPECT_EQ(DrawAugmentation({}, kShape, 1, 2, 3), Augmentation());
}

std::string CheckOf(const api::AugmentSpec& spec, std::vector<std::int64_t> shape) {
  const auto dataset =
      MakeSynthetic({.train_examples = 4, .shape = std::move(shape)}, Split::kTrain, 1, false);
  return std::string(
      CheckAugment(spec, (*dataset)->sample_shape(), (*dataset)->element()).message());
}

TEST(AugmentTest, RefusesWhatDoesNotFitTheImages) {
  const api::AugmentSpec crop{.random_crop = api::RandomCropSpec{8}};
  const api::AugmentSpec cutout{.cutout = api::CutoutSpec{9}};
  EXPECT_EQ(CheckOf(crop, {3, 9, 12}), "");
  EXPECT_EQ(CheckOf(crop, {3, 12, 8}),
            "spec.training.dataset.augment.randomCrop.padding: found 8 for images of 12x8 pixels, "
            "expected less than the shorter side");
  EXPECT_EQ(CheckOf(cutout, {3, 9, 12}), "");
  EXPECT_EQ(CheckOf(cutout, {3, 8, 12}),
            "spec.training.dataset.augment.cutout.size: found 9 for images of 8x12 pixels, "
            "expected at most the shorter side");
}

std::string CheckNormalizeOf(const api::NormalizeSpec& spec, const Shape& shape,
                             DType element = DType::kUInt8) {
  return std::string(CheckNormalize(spec, shape, element).message());
}

TEST(AugmentTest, NormalizesImagesOfBytesByOneNumberForEachChannel) {
  const api::NormalizeSpec rgb{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  EXPECT_EQ(CheckNormalizeOf(rgb, {3, 9, 12}), "");
  EXPECT_EQ(CheckNormalizeOf(rgb, {1, 9, 12}),
            "spec.training.dataset.normalize.mean: found 3 numbers for images of 1 channels, "
            "expected one for each channel");
  EXPECT_EQ(CheckNormalizeOf({{0.5}, {0.5, 0.5}}, {1, 9, 12}),
            "spec.training.dataset.normalize.std: found 2 numbers for images of 1 channels, "
            "expected one for each channel");
  EXPECT_EQ(CheckNormalizeOf(rgb, {3, 9, 12}, DType::kFloat32),
            "spec.training.dataset.normalize: found samples of float32 [3,9,12], expected images "
            "of bytes");
  EXPECT_EQ(CheckNormalizeOf(rgb, {3}),
            "spec.training.dataset.normalize: found samples of uint8 [3], expected images of "
            "bytes");
}

TEST(AugmentTest, NormalizesByWhatFloat32CanHold) {
  EXPECT_EQ(CheckNormalizeOf({{-1e30}, {1e-30}}, {1, 2, 2}), "");
  EXPECT_EQ(CheckNormalizeOf({{1e31}, {1}}, {1, 2, 2}),
            "spec.training.dataset.normalize.mean: found 1e+31, expected -1e+30 to 1e+30");
  EXPECT_EQ(CheckNormalizeOf({{0}, {1e-40}}, {1, 2, 2}),
            "spec.training.dataset.normalize.std: found 1e-40, expected 1e-30 to 1e+30");
}

}  // namespace
}  // namespace lockstep::train
