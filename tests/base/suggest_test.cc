#include "base/suggest.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr std::string_view kKnown[] = {"epochs", "steps", "replicaSpecs", "PS"};

TEST(SuggestTest, FindsTheNearestNameWhateverItsCase) {
  EXPECT_EQ(NearestName("epoch", kKnown), "epochs");
  EXPECT_EQ(NearestName("EPOCHS", kKnown), "epochs");
  EXPECT_EQ(NearestName("tfReplicaSpecs", kKnown), "replicaSpecs");
  EXPECT_EQ(NearestName("ps", kKnown), "PS");
}

TEST(SuggestTest, SuggestsNothingFarAway) {
  EXPECT_EQ(NearestName("activeDeadline", kKnown), "");
  EXPECT_EQ(NearestName("", kKnown), "");
  EXPECT_EQ(NearestName("xyz", kKnown), "");
  EXPECT_EQ(NearestName(std::string(100'000, 'e'), kKnown), "");
}

TEST(SuggestTest, ListsTheKnownNamesWhenNoneIsNear) {
  EXPECT_EQ(SuggestName("epoch", kKnown), "did you mean \"epochs\"?");
  EXPECT_EQ(SuggestName("frobnicate", kKnown), "expected one of epochs, steps, replicaSpecs, PS");
}

}  // namespace
}  // namespace lockstep
