#include "trainer/rendezvous/fingerprint.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

namespace lockstep::train {
namespace {

using Facts = std::pair<std::string, std::string>;

std::optional<Facts> Differ(const std::string& own, const std::string& other) {
  const std::optional<FingerprintDifference> difference = FirstDifference(own, other);
  if (!difference) return std::nullopt;
  return Facts(difference->own, difference->other);
}

TEST(FirstDifferenceTest, NamesTheFirstFactThatDiffers) {
  EXPECT_EQ(Differ("train=8;test=2;", "train=8;test=2;"), std::nullopt);
  EXPECT_EQ(Differ("", ""), std::nullopt);
  EXPECT_EQ(Differ("train=8;test=2;classes=3;", "train=8;test=4;classes=5;"),
            Facts("test=2", "test=4"));
  EXPECT_EQ(Differ("train=8;classes=3;", "train=8;classes=5;"), Facts("classes=3", "classes=5"));
}

TEST(FirstDifferenceTest, ASideThatEndsFirstHasNothing) {
  EXPECT_EQ(Differ("train=8;", "train=8;test=2;"), Facts("nothing", "test=2"));
  EXPECT_EQ(Differ("train=8;test=2;", ""), Facts("train=8", "nothing"));
}

TEST(FirstDifferenceTest, AnyTextOfAPeerIsShownInBoundedLength) {
  const auto difference = Differ(std::string(1000, 'x'), "train=8;");
  EXPECT_EQ(difference, Facts(std::string(200, 'x'), "train=8"));
  EXPECT_NE(Differ("train=8", "train=8;"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::train
