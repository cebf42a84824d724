#include "trainer/backend/cpu/portable/patches.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

constexpr std::int64_t kChannels = 2;

Patches PatchesOf(std::int64_t in, std::int64_t size, std::int64_t stride, Padding padding) {
  return {.channels = kChannels,
          .rows = PlaceWindow(in, size, stride, padding),
          .columns = PlaceWindow(in + 3, size + 1, stride, padding)};
}

std::vector<Patches> Cases() {
  return {PatchesOf(6, 3, 1, Padding::kSame), PatchesOf(7, 2, 2, Padding::kValid),
          PatchesOf(5, 4, 3, Padding::kSame), PatchesOf(9, 1, 3, Padding::kSame),
          PatchesOf(2, 5, 1, Padding::kSame)};  // the window is larger than the image
}

// Calls visit(place in the matrix of all rows, place in the image or -1) for each element.
template <typename Visit>
void ForElements(const Patches& p, Visit visit) {
  std::size_t at = 0;
  for (std::int64_t tap = 0; tap < p.taps(); ++tap) {
    const std::int64_t c = tap / (p.rows.size * p.columns.size);
    const std::int64_t r = tap / p.columns.size % p.rows.size, s = tap % p.columns.size;
    for (std::int64_t out = 0; out < p.rows.out; ++out) {
      for (std::int64_t q = 0; q < p.columns.out; ++q) {
        const std::int64_t h = out * p.rows.stride - p.rows.pad_begin + r;
        const std::int64_t w = q * p.columns.stride - p.columns.pad_begin + s;
        const bool inside = h >= 0 && h < p.rows.in && w >= 0 && w < p.columns.in;
        visit(at++, inside ? (c * p.rows.in + h) * p.columns.in + w : -1);
      }
    }
  }
}

TEST(PatchesTest, AMatrixHoldsWhatTheWindowsSee) {
  for (const Patches& p : Cases()) {
    const std::vector<float> image = RandomValues(kChannels * p.rows.in * p.columns.in, 1);
    const std::int64_t pixels = p.rows.out * p.columns.out;
    std::vector<float> matrix(static_cast<std::size_t>(p.taps() * pixels), NAN);
    p.Gather(image.data(), 0, p.rows.out, matrix.data());
    ForElements(p, [&](std::size_t at, std::int64_t source) {
      EXPECT_EQ(matrix[at], source < 0 ? 0.0f : image[static_cast<std::size_t>(source)]) << at;
    });
  }
}

TEST(PatchesTest, EveryElementIsAddedToWhereItCameFrom) {
  for (const Patches& p : Cases()) {
    const std::int64_t floats = kChannels * p.rows.in * p.columns.in;
    const std::vector<float> matrix = RandomValues(p.taps() * p.rows.out * p.columns.out, 2);
    std::vector<float> image(static_cast<std::size_t>(floats), 1.0f);
    std::vector<double> expected(image.size(), 1.0);
    p.ScatterAdd(matrix.data(), 0, p.rows.out, image.data());
    ForElements(p, [&](std::size_t at, std::int64_t target) {
      if (target >= 0) expected[static_cast<std::size_t>(target)] += matrix[at];
    });
    for (std::size_t i = 0; i < image.size(); ++i) EXPECT_NEAR(image[i], expected[i], 1e-5) << i;
  }
}

TEST(PatchesTest, ABandIsItsRowsOfTheWhole) {
  for (const Patches& p : Cases()) {
    const std::vector<float> image = RandomValues(kChannels * p.rows.in * p.columns.in, 1);
    const std::int64_t width = p.columns.out;
    std::vector<float> whole(static_cast<std::size_t>(p.taps() * p.rows.out * width));
    p.Gather(image.data(), 0, p.rows.out, whole.data());
    for (std::int64_t row = 0; row < p.rows.out; ++row) {
      std::vector<float> band(static_cast<std::size_t>(p.taps() * width), NAN);
      p.Gather(image.data(), row, row + 1, band.data());
      for (std::int64_t tap = 0; tap < p.taps(); ++tap) {
        for (std::int64_t q = 0; q < width; ++q) {
          EXPECT_EQ(band[static_cast<std::size_t>(tap * width + q)],
                    whole[static_cast<std::size_t>((tap * p.rows.out + row) * width + q)]);
        }
      }
    }
  }
}

TEST(PatchesTest, ABandHasAtLeastOneRowAndAtMostAll) {
  const Patches p = PatchesOf(6, 3, 1, Padding::kSame);
  const std::int64_t row = p.taps() * p.columns.out;
  EXPECT_EQ(p.BandRows(row - 1), 1);
  EXPECT_EQ(p.BandRows(2 * row), 2);
  EXPECT_EQ(p.BandRows(100 * row), p.rows.out);
}

}  // namespace
}  // namespace lockstep::train::cpu
