#include "trainer/rendezvous/solo_rendezvous.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(SoloRendezvousTest, EachJoinIsAGenerationOfOne) {
  const auto rendezvous =
      MakeSoloRendezvous({.role = "worker", .index = 3, .local_rank = 1}, [] { return false; });
  for (const std::uint64_t generation : {1, 2}) {
    const Membership membership = rendezvous->Join(7, "fingerprint").value();
    EXPECT_EQ(membership.generation, generation);
    EXPECT_EQ(membership.rank, 0);
    ASSERT_EQ(membership.world(), 1);
    EXPECT_EQ(membership.members[0],
              (Member{.role = "worker", .index = 3, .local_rank = 1, .step = 7}));
    EXPECT_EQ(membership.FurthestRank(10), 0);
  }
  EXPECT_TRUE(rendezvous->Finish().ok());
}

TEST(SoloRendezvousTest, AStopCancelsJoin) {
  bool stop = false;
  const auto rendezvous = MakeSoloRendezvous({}, [&stop] { return stop; });
  EXPECT_FALSE(rendezvous->StopRequested());
  stop = true;
  EXPECT_TRUE(rendezvous->StopRequested());
  EXPECT_TRUE(absl::IsCancelled(rendezvous->Join(-1, "fingerprint").status()));
}

TEST(SoloRendezvousTest, NobodyAnswersInItsStore) {
  const auto rendezvous = MakeSoloRendezvous({}, [] { return false; });
  EXPECT_TRUE(rendezvous->store().Set("key", "value").ok());
  EXPECT_FALSE(rendezvous->store().Get("key", std::chrono::seconds(1)).ok());
}

}  // namespace
}  // namespace lockstep::train
