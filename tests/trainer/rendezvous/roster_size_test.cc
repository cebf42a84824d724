// A group that gets another number of workers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trainer/rendezvous/roster.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RosterSize SizeOf(int workers) {
  RosterSize size{.workers = workers, .cluster_hash = fmt::format("worker={}", workers)};
  for (int i = 0; i < workers; ++i) size.slots.push_back({"worker", i, 0});
  return size;
}

RosterConfig Workers(int workers) {
  RosterConfig config;
  static_cast<RosterSize&>(config) = SizeOf(workers);
  config.job = "mnist";
  config.of_size = &SizeOf;
  return config;
}

class RosterSizeTest : public ::testing::Test {
 protected:
  RosterSizeTest() : roster_(Workers(2)) { roster_.Tick(now_); }

  // The worker's process, which knows of so many workers, has a new stream.
  Outbox Arrive(SessionId id, int worker, int workers) {
    roster_.Connect(id, now_);
    return Join(id, worker, workers, id, /*last_generation=*/0);
  }
  // As after the process's stream was broken: it is the same process.
  Outbox ArriveAgain(SessionId id, SessionId before, int worker, int workers) {
    roster_.Connect(id, now_);
    return Join(id, worker, workers, before, roster_.generation());
  }
  Outbox Join(SessionId id, int worker, int workers) {
    return Join(id, worker, workers, id, roster_.generation());
  }
  // The process was in a generation of an earlier leader, and has its state.
  Outbox Survive(SessionId id, int worker, int workers, std::uint64_t last_generation = 7) {
    roster_.Connect(id, now_);
    return Join(id, worker, workers, id, last_generation, /*step=*/500);
  }
  Outbox Join(SessionId id, int worker, int workers, SessionId incarnation,
              std::uint64_t last_generation, std::int64_t step = -1, std::int64_t pod_started = 0) {
    proto::ReplicaMessage message;
    proto::Join& join = *message.mutable_join();
    join.set_cluster_hash(SizeOf(workers).cluster_hash);
    join.set_workers(workers);
    join.set_job("mnist");
    join.set_role("worker");
    join.set_index(worker);
    join.set_step(step);
    join.set_pod_started(pod_started);
    join.set_incarnation(fmt::format("{} of {}", incarnation, worker));
    join.set_last_generation(last_generation);
    return roster_.Receive(id, message, now_);
  }
  Outbox Beat(SessionId id, bool keeps_workers, bool is_saved = false) {
    proto::ReplicaMessage message;
    message.mutable_heartbeat()->set_generation(roster_.generation());
    message.mutable_heartbeat()->set_keeps_workers(keeps_workers);
    message.mutable_heartbeat()->set_is_saved(is_saved);
    return roster_.Receive(id, message, now_);
  }
  Outbox Saved(SessionId id) { return Beat(id, /*keeps_workers=*/false, /*is_saved=*/true); }
  void Start(int workers) {
    for (int i = 0; i < workers; ++i) Arrive(next_++, i, workers);
    ASSERT_TRUE(roster_.active());
  }
  // Who is told which number of workers; "comes" if the group does not have it yet.
  static std::vector<std::string> Told(const Outbox& out) {
    std::vector<std::string> told;
    for (const Outgoing& each : out) {
      if (!each.message || !each.message->has_resized()) continue;
      const proto::Resized& resized = each.message->resized();
      told.push_back(
          fmt::format("{}:{}{}", each.to, resized.workers(), resized.is_coming() ? " comes" : ""));
    }
    std::ranges::sort(told);
    return told;
  }

  SteadyTime now_ = SteadyTime() + 1h;
  SessionId next_ = 1;
  Roster roster_;
};

TEST_F(RosterSizeTest, MembersAreToldAndTheSizeChangesWhenTheirGenerationHasEnded) {
  Start(2);
  EXPECT_THAT(Told(roster_.Resize(3, now_)), ElementsAre("1:3 comes", "2:3 comes"));
  EXPECT_TRUE(roster_.active()) << "they stop at a step that both agree on";
  EXPECT_EQ(roster_.workers(), 2);
  EXPECT_THAT(Told(roster_.Resize(3, now_)), IsEmpty()) << "said once";
  Saved(1);
  EXPECT_TRUE(roster_.active());
  roster_.Disconnect(2, "its connection closed");
  EXPECT_EQ(roster_.workers(), 3);
  EXPECT_THAT(roster_.Missing(), ElementsAre("worker 0", "worker 1", "worker 2"));
  roster_.Disconnect(1, "its connection closed");
  for (int i = 0; i < 3; ++i) Arrive(static_cast<SessionId>(10 + i), i, 3);
  EXPECT_TRUE(roster_.active());
  EXPECT_EQ(roster_.generation(), 2u);
  EXPECT_THAT(roster_.LostPods(), IsEmpty());
}

// Only the memory of the others has the state.
TEST_F(RosterSizeTest, AGroupThatCannotSaveWaitsForALostMemberAsItIs) {
  Start(2);
  roster_.Resize(3, now_);
  EXPECT_FALSE(roster_.keeps_workers());
  Beat(2, true);
  EXPECT_FALSE(roster_.keeps_workers()) << "rank 0 decides";
  Beat(1, true);
  EXPECT_TRUE(roster_.keeps_workers());
  roster_.Disconnect(2, "its connection closed");
  EXPECT_TRUE(roster_.keeps_workers());
  EXPECT_EQ(roster_.workers(), 2);
  EXPECT_THAT(Told(Join(1, 0, 2)), ElementsAre("1:3 comes")) << "it may try to save again";
  EXPECT_THAT(Told(Arrive(5, 1, 2)), ElementsAre("1:3 comes", "5:3 comes")) << "one is new";
  EXPECT_TRUE(roster_.active());
  roster_.Disconnect(5, "its connection closed");
  EXPECT_EQ(roster_.workers(), 2) << "before the first heartbeat";
  roster_.Resize(2, now_);
  Join(1, 0, 2);
  EXPECT_THAT(Told(Arrive(6, 1, 2)), ElementsAre("1:2 comes", "6:2 comes")) << "as before";
  roster_.Resize(3, now_);
  Saved(1);
  EXPECT_FALSE(roster_.keeps_workers());
  roster_.Disconnect(6, "it starts again as one of three");
  EXPECT_EQ(roster_.workers(), 3);
}

TEST_F(RosterSizeTest, AGroupThatCannotSaveDoesNotWaitForOneThatIsTooMany) {
  Start(2);
  roster_.Resize(1, now_);
  Beat(1, true);
  Join(1, 0, 2);
  EXPECT_EQ(roster_.workers(), 2) << "nobody is lost";
  EXPECT_THAT(Told(roster_.Disconnect(2, "its pod was deleted")), ElementsAre("1:1"));
  EXPECT_EQ(roster_.workers(), 1);
  EXPECT_FALSE(roster_.keeps_workers());
}

// It has not been told of a number when it was in a generation.
TEST_F(RosterSizeTest, ANumberThatComesWhileALostMemberIsAwaitedWaitsForASave) {
  Start(2);
  roster_.Disconnect(2, "its connection closed");
  Join(1, 0, 2);
  EXPECT_THAT(Told(roster_.Resize(3, now_)), ElementsAre("1:3 comes"));
  EXPECT_THAT(Told(roster_.Tick(now_)), IsEmpty()) << "said once";
  EXPECT_EQ(roster_.workers(), 2);
  Beat(1, true);
  EXPECT_TRUE(roster_.keeps_workers());
  Arrive(5, 1, 2);
  EXPECT_TRUE(roster_.active());
  roster_.Disconnect(5, "its connection closed");
  Join(1, 0, 2);
  EXPECT_THAT(Told(Saved(1)), ElementsAre("1:3"));
  EXPECT_EQ(roster_.workers(), 3);
}

TEST_F(RosterSizeTest, AMemberThatIsLostWhileTheLeaderSavesIsWaitedForIfTheSaveFails) {
  Start(2);
  roster_.Resize(3, now_);
  roster_.Disconnect(2, "its connection closed");
  EXPECT_EQ(roster_.workers(), 2);
  EXPECT_FALSE(roster_.keeps_workers()) << "as far as is known";
  Beat(1, true);
  EXPECT_EQ(roster_.workers(), 2);
  EXPECT_TRUE(roster_.keeps_workers());
  Join(1, 0, 2);
  Arrive(5, 1, 2);
  EXPECT_TRUE(roster_.active());
}

TEST_F(RosterSizeTest, AMemberThatIsLostWhileTheLeaderSavesIsNotWaitedForOnceItHas) {
  Start(2);
  roster_.Resize(3, now_);
  roster_.Disconnect(2, "its connection closed");
  Saved(1);
  EXPECT_EQ(roster_.workers(), 3);
}

// Another member may have the state.
TEST_F(RosterSizeTest, TheSuccessorOfALeaderThatCouldNotSaveJoinsTheGroupAsItIs) {
  Start(2);
  roster_.Resize(3, now_);
  Beat(1, true);
  roster_.Disconnect(1, "its connection closed");
  EXPECT_EQ(roster_.workers(), 2);
  EXPECT_FALSE(roster_.keeps_workers()) << "nobody says so";
  Arrive(5, 0, 2);
  Saved(5);
  EXPECT_EQ(roster_.workers(), 2) << "it has not been in the group";
  Join(2, 1, 2);
  EXPECT_TRUE(roster_.active());
}

TEST_F(RosterSizeTest, ALeaderWhoseStreamBreaksKeepsItsNumber) {
  Start(2);
  roster_.Resize(3, now_);
  Beat(1, true);
  EXPECT_THAT(Told(ArriveAgain(11, 1, 0, 2)), ElementsAre("11:3 comes"));
  EXPECT_EQ(roster_.workers(), 2);
  Beat(11, true);
  EXPECT_TRUE(roster_.keeps_workers());
  Join(2, 1, 2);
  EXPECT_TRUE(roster_.active());
}

// The pod of the new leader was created for two workers, when the group had three.
TEST_F(RosterSizeTest, ANewLeaderFormsTheGroupThatItsMembersBring) {
  EXPECT_THAT(Told(Arrive(1, 0, 2)), IsEmpty());
  EXPECT_THAT(Told(Survive(2, 1, 3)), ElementsAre("1:3")) << "it comes back as one of three";
  EXPECT_EQ(roster_.workers(), 3);
  EXPECT_THAT(Told(Join(1, 0, 3)), IsEmpty());
  EXPECT_THAT(Told(roster_.Resize(2, now_)), ElementsAre("1:2 comes"));
  EXPECT_EQ(roster_.workers(), 3) << "worker 2 may be looking for this leader";
  Survive(3, 2, 3);
  EXPECT_TRUE(roster_.active());
  EXPECT_EQ(roster_.generation(), 8u);
  EXPECT_EQ(roster_.workers(), 3);
  Saved(1);
  roster_.Disconnect(3, "left");
  EXPECT_EQ(roster_.workers(), 2);
}

TEST_F(RosterSizeTest, ANewLeaderWaitsOnlyAWhileForAMemberThatIsTooMany) {
  Arrive(1, 0, 2);
  Survive(2, 1, 3);
  Join(1, 0, 3);
  roster_.Resize(2, now_);
  EXPECT_EQ(roster_.workers(), 3);
  proto::ReplicaMessage beat;
  beat.mutable_heartbeat();
  Outbox out;
  for (int i = 0; i < 31; ++i) {
    now_ += 1s;
    for (const SessionId id : {SessionId{1}, SessionId{2}}) {
      Outbox more = roster_.Receive(id, beat, now_);
      out.insert(out.end(), more.begin(), more.end());
    }
    roster_.Tick(now_);
  }
  EXPECT_THAT(Told(out), ElementsAre("1:2", "2:2"));
  EXPECT_EQ(roster_.workers(), 2);
}

TEST_F(RosterSizeTest, ANumberThatComesBeforeANewLeaderHasItsGroupWaitsForASave) {
  Survive(2, 1, 2);
  EXPECT_THAT(Told(roster_.Resize(3, now_)), IsEmpty());
  EXPECT_EQ(roster_.workers(), 2);
  EXPECT_TRUE(roster_.keeps_workers()) << "it cannot save before it has formed";
  EXPECT_THAT(Told(Arrive(1, 0, 2)), ElementsAre("1:3 comes", "2:3 comes"));
  EXPECT_TRUE(roster_.active());
  EXPECT_FALSE(roster_.keeps_workers()) << "now it can";
}

// Its pod was replaced when the others had gone on without it, as a group of two.
TEST_F(RosterSizeTest, ANewLeaderFormsTheLatestOfTwoGroups) {
  Survive(2, 1, 2, 8);
  EXPECT_THAT(Told(Survive(3, 2, 3, 7)), ElementsAre("3:2"));
  EXPECT_EQ(roster_.workers(), 2);
  EXPECT_THAT(Told(Survive(4, 3, 4, 9)), ElementsAre("2:4", "3:4"));
  EXPECT_EQ(roster_.workers(), 4);
}

TEST_F(RosterSizeTest, AProcessThatIsOutdatedBringsNoGroup) {
  roster_.Connect(2, now_);
  Join(2, 1, 2, 2, /*last_generation=*/0, /*step=*/-1, /*pod_started=*/1);
  EXPECT_THAT(Told(Survive(3, 1, 3)), ElementsAre("3:2"));
  EXPECT_EQ(roster_.workers(), 2);
}

TEST_F(RosterSizeTest, WhoWaitsIsToldAtOnce) {
  Arrive(1, 0, 2);
  EXPECT_THAT(Told(roster_.Resize(1, now_)), ElementsAre("1:1"));
  EXPECT_FALSE(roster_.active()) << "its process knows of two workers";
  Join(1, 0, 1);
  EXPECT_TRUE(roster_.active());
}

TEST_F(RosterSizeTest, WhoWaitsForAPlaceIsNoStranger) {
  Start(2);
  Arrive(7, 2, 3);
  roster_.Connect(8, now_);  // says nothing
  proto::ReplicaMessage beat;
  beat.mutable_heartbeat();
  std::vector<SessionId> closed;
  for (int i = 0; i < 30; ++i) {
    now_ += 1s;
    for (const SessionId id : {SessionId{1}, SessionId{2}, SessionId{7}, SessionId{8}}) {
      if (std::ranges::find(closed, id) == closed.end()) roster_.Receive(id, beat, now_);
    }
    for (const Outgoing& each : roster_.Tick(now_)) {
      if (each.close) closed.push_back(each.to);
    }
  }
  EXPECT_THAT(closed, ElementsAre(8));
}

TEST_F(RosterSizeTest, APodWithoutAPlaceIsToldSoAndAgainWhenItGetsOne) {
  Start(2);
  EXPECT_THAT(Told(Arrive(7, 2, 3)), ElementsAre("7:2")) << "created before the group has grown";
  EXPECT_TRUE(roster_.active());
  roster_.Resize(3, now_);
  Saved(1);
  EXPECT_THAT(Told(roster_.Disconnect(1, "left")), ElementsAre("7:3"));
  EXPECT_THAT(Told(Join(7, 2, 3)), IsEmpty());
  EXPECT_THAT(roster_.Missing(), ElementsAre("worker 0", "worker 1"));
}

// As its pod's environment has the size of the day when the pod was created.
TEST_F(RosterSizeTest, AProcessThatIsStartedAgainIsToldTheSize) {
  Start(2);
  roster_.Resize(1, now_);
  roster_.Disconnect(2, "left");
  roster_.Disconnect(1, "left");
  EXPECT_THAT(Told(Arrive(11, 0, 2)), ElementsAre("11:1"));
  EXPECT_THAT(Told(Arrive(12, 1, 2)), ElementsAre("12:1"));
  Arrive(13, 0, 1);
  EXPECT_TRUE(roster_.active());
}

TEST_F(RosterSizeTest, AMemberThatHasLostItsPlaceHoldsNoneAndCountsAsNoLoss) {
  Start(2);
  roster_.Resize(1, now_);
  Saved(1);
  EXPECT_THAT(Told(Join(1, 0, 2)), ElementsAre("1:1")) << "it asks for the next generation";
  Join(1, 0, 1);
  EXPECT_TRUE(roster_.active());
  roster_.Disconnect(2, "its pod was deleted");
  EXPECT_TRUE(roster_.active());
  EXPECT_THAT(roster_.LostPods(), IsEmpty());
}

TEST_F(RosterSizeTest, ASecondNumberTakesThePlaceOfTheFirst) {
  Start(2);
  roster_.Resize(3, now_);
  EXPECT_THAT(Told(roster_.Resize(1, now_)), ElementsAre("1:1 comes", "2:1 comes"));
  EXPECT_THAT(Told(roster_.Resize(2, now_)), ElementsAre("1:2 comes", "2:2 comes"));
  roster_.Disconnect(2, "left");
  EXPECT_EQ(roster_.workers(), 2);
  Join(1, 0, 2);
  Arrive(5, 1, 2);
  EXPECT_TRUE(roster_.active());
}

TEST_F(RosterSizeTest, OtherDifferencesAreRefused) {
  roster_.Connect(1, now_);
  proto::ReplicaMessage message;
  proto::Join& join = *message.mutable_join();
  join.set_cluster_hash("another job's");
  join.set_workers(3);
  join.set_job("mnist");
  join.set_role("worker");
  const Outbox out = roster_.Receive(1, message, now_);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(out[0].message->has_rejected());
}

TEST_F(RosterSizeTest, AGroupOfAFixedSizeStaysAsItIs) {
  RosterConfig config = Workers(2);
  config.of_size = nullptr;
  roster_ = Roster(config);
  Start(2);
  EXPECT_THAT(roster_.Resize(3, now_), IsEmpty());
  EXPECT_EQ(roster_.workers(), 0);
  EXPECT_TRUE(Arrive(9, 2, 3).back().message->has_rejected());
}

TEST_F(RosterSizeTest, ImpossibleNumbersAreIgnored) {
  Start(2);
  for (const int bad : {0, -1, 1'000'000'000}) EXPECT_THAT(roster_.Resize(bad, now_), IsEmpty());
  EXPECT_EQ(roster_.workers(), 2);
}

}  // namespace
}  // namespace lockstep::train
