#include "trainer/train/evaluator/unseen_checkpoints.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const SteadyTime kStart{std::chrono::hours(1)};
const SteadyTime kLater = kStart + UnseenCheckpoints::kPatience;

TEST(UnseenCheckpointsTest, OneThatDoesNotShowInTimeIsToldOnce) {
  UnseenCheckpoints unseen;
  EXPECT_FALSE(unseen.UpdateMissing(-1, -1, kStart - minutes(10))) << "nothing is saved";
  EXPECT_FALSE(unseen.UpdateMissing(100, -1, kStart));
  EXPECT_FALSE(unseen.UpdateMissing(200, -1, kLater - seconds(1))) << "it may still come";
  EXPECT_TRUE(unseen.UpdateMissing(300, -1, kLater));
  EXPECT_FALSE(unseen.UpdateMissing(400, -1, kLater + minutes(10)));
}

TEST(UnseenCheckpointsTest, WhereTheyComeLateNothingIsMissing) {
  UnseenCheckpoints unseen;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(unseen.UpdateMissing(100 * i + 100, 100 * i, kStart + i * minutes(1)));
  }
  EXPECT_FALSE(unseen.UpdateMissing(1000, 1000, kLater + minutes(30)));
}

TEST(UnseenCheckpointsTest, OnceOneHasComeTheNextIsWaitedForAnew) {
  UnseenCheckpoints unseen;
  unseen.UpdateMissing(100, -1, kStart);
  EXPECT_TRUE(unseen.UpdateMissing(100, -1, kLater));
  EXPECT_FALSE(unseen.UpdateMissing(200, 100, kLater + seconds(1)));
  EXPECT_FALSE(unseen.UpdateMissing(200, 100, kLater + UnseenCheckpoints::kPatience));
  EXPECT_TRUE(unseen.UpdateMissing(200, 100, kLater + seconds(1) + UnseenCheckpoints::kPatience));
}

}  // namespace
}  // namespace lockstep::train
