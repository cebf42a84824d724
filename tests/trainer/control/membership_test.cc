#include "trainer/control/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RosterConfig TwoWorkers() {
  RosterConfig config;
  config.job = "mnist";
  config.cluster_hash = "leader's hash";
  config.slots = {{"worker", 0, 0}, {"worker", 1, 0}};
  return config;
}

// A roster of two workers and a clock; each call gives what the roster says.
class RosterTest : public ::testing::Test {
 protected:
  RosterTest() : roster_(TwoWorkers()) { roster_.Tick(now_); }

  proto::Join JoinOf(int worker) {
    proto::Join join;
    join.set_cluster_hash("leader's hash");
    join.set_job("mnist");
    join.set_role("worker");
    join.set_index(worker);
    join.set_step(-1);
    join.set_layout("L");
    join.set_incarnation("first of worker " + std::to_string(worker));
    return join;
  }
  Outbox Send(SessionId id, const proto::Join& join) {
    proto::ReplicaMessage message;
    *message.mutable_join() = join;
    return roster_.Receive(id, message, now_);
  }
  Outbox Arrive(SessionId id, const proto::Join& join) {
    roster_.Connect(id, now_);
    return Send(id, join);
  }
  Outbox Finished(SessionId id, std::uint64_t generation) {
    proto::ReplicaMessage message;
    message.mutable_finished()->set_generation(generation);
    return roster_.Receive(id, message, now_);
  }
  void Beat(SessionId id, std::uint64_t generation = 0, std::int64_t step = 0) {
    proto::ReplicaMessage message;
    message.mutable_heartbeat()->set_generation(generation);
    message.mutable_heartbeat()->mutable_progress()->set_step(step);
    roster_.Receive(id, message, now_);
  }
  // Time as the service lets it pass: with a tick each second.
  Outbox Pass(Duration duration) {
    Outbox all;
    for (const SteadyTime end = now_ + duration; now_ < end;) {
      now_ += 1s;
      for (Outgoing& out : roster_.Tick(now_)) all.push_back(std::move(out));
    }
    return all;
  }
  // Sessions 1 and 2 as workers 0 and 1 in a generation.
  void Start() {
    Arrive(1, JoinOf(0));
    Arrive(2, JoinOf(1));
    ASSERT_TRUE(roster_.active());
  }

  SteadyTime now_ = SteadyTime() + 1h;
  Roster roster_;
};

TEST_F(RosterTest, AGenerationStartsWhenTheLastMemberIsThere) {
  const Outbox first = Arrive(1, JoinOf(1));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_THAT(first[0].message->waiting().missing(), ElementsAre("worker 0"));
  EXPECT_THAT(roster_.Missing(), ElementsAre("worker 0"));
  proto::Join late = JoinOf(0);
  late.set_step(7);
  const Outbox both = Arrive(2, late);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].to, 2u);
  EXPECT_EQ(both[0].message->membership().rank(), 0);
  EXPECT_EQ(both[0].message->membership().generation(), 1u);
  EXPECT_EQ(both[0].message->membership().members(0).step(), 7);
  EXPECT_EQ(both[1].to, 1u);
  EXPECT_EQ(both[1].message->membership().rank(), 1);
  EXPECT_THAT(roster_.Missing(), IsEmpty());
}

TEST_F(RosterTest, NumbersGoOnAboveWhatMembersHaveSeenOfAnEarlierLeader) {
  Arrive(1, JoinOf(0));
  proto::Join survivor = JoinOf(1);
  survivor.set_last_generation(41);
  Arrive(2, survivor);
  EXPECT_EQ(roster_.generation(), 42u);
}

TEST_F(RosterTest, AClosedStreamEndsTheGenerationForTheOthers) {
  Start();
  const Outbox out = roster_.Disconnect(2, "its connection closed");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, 1u);
  EXPECT_EQ(out[0].message->generation_ended().generation(), 1u);
  EXPECT_EQ(out[0].message->generation_ended().reason(), "lost worker 1: its connection closed");
  EXPECT_THAT(roster_.Missing(), ElementsAre("worker 0", "worker 1"));
}

TEST_F(RosterTest, SurvivorAndSuccessorMakeTheNextGeneration) {
  Start();
  roster_.Disconnect(2, "killed");
  Send(1, JoinOf(0));
  proto::Join successor = JoinOf(1);
  successor.set_incarnation("second");
  Arrive(3, successor);
  EXPECT_TRUE(roster_.active());
  EXPECT_EQ(roster_.generation(), 2u);
}

TEST_F(RosterTest, AMemberThatAsksAgainEndsTheGeneration) {
  Start();
  const Outbox out = Send(1, JoinOf(0));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].to, 2u);
  EXPECT_THAT(out[0].message->generation_ended().reason(), HasSubstr("worker 0 asked"));
  EXPECT_EQ(out[1].to, 1u);
  EXPECT_TRUE(out[1].message->has_waiting());
}

TEST_F(RosterTest, ANewProcessReplacesTheOldOneOfItsPlaceAndTellsItSo) {
  Start();
  proto::Join successor = JoinOf(1);
  successor.set_incarnation("second of worker 1");
  const Outbox out = Arrive(3, successor);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].to, 1u);
  EXPECT_EQ(out[0].message->generation_ended().reason(), "worker 1 was started again");
  EXPECT_EQ(out[1].to, 2u);
  EXPECT_TRUE(out[1].close);
  EXPECT_THAT(out[1].message->rejected().reason(), HasSubstr("second of worker 1"));
  EXPECT_THAT(Finished(2, 1), IsEmpty());  // its last words count for nothing
}

TEST_F(RosterTest, ANewStreamOfTheSameProcessClosesTheOldOneQuietly) {
  Start();
  const Outbox out = Arrive(3, JoinOf(1));
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[1].to, 2u);
  EXPECT_TRUE(out[1].close);
  EXPECT_FALSE(out[1].message.has_value());
}

TEST_F(RosterTest, SilenceOfFiveSecondsIsDeath) {
  Start();
  Pass(4s);
  Beat(1);
  Outbox out = Pass(1s);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].to, 1u);
  EXPECT_EQ(out[0].message->generation_ended().reason(), "lost worker 1: no heartbeat for 5 s");
  EXPECT_EQ(out[1].to, 2u);
  EXPECT_TRUE(out[1].close);
}

TEST_F(RosterTest, APauseOfTheCoordinatorItselfProvesNobodyDead) {
  Start();
  now_ += 1min;
  EXPECT_THAT(roster_.Tick(now_), IsEmpty());
  EXPECT_TRUE(roster_.active());
  Pass(5s);
  EXPECT_FALSE(roster_.active());
}

TEST_F(RosterTest, ThoseWhoWaitAreToldEverySecondWhoIsMissing) {
  Arrive(1, JoinOf(0));
  Pass(1s);
  Beat(1);
  const Outbox out = Pass(3s);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_THAT(out[2].message->waiting().missing(), ElementsAre("worker 1"));
}

TEST_F(RosterTest, AWaitingProcessThatDiesIsMissingAgain) {
  Arrive(1, JoinOf(0));
  roster_.Disconnect(1, "killed");
  EXPECT_THAT(roster_.Missing(), ElementsAre("worker 0", "worker 1"));
  Arrive(2, JoinOf(1));
  EXPECT_FALSE(roster_.active());
}

TEST_F(RosterTest, AllFinishedReleasesAllAndAnEndAfterThatIsNoLoss) {
  Start();
  EXPECT_THAT(Finished(2, 1), IsEmpty());
  const Outbox out = Finished(1, 1);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(out[0].message->has_released());
  EXPECT_TRUE(out[1].message->has_released());
  EXPECT_TRUE(roster_.done());
  EXPECT_THAT(roster_.Disconnect(2, "it left"), IsEmpty());
  EXPECT_FALSE(roster_.empty());
  roster_.Disconnect(1, "it left");
  EXPECT_TRUE(roster_.empty());
}

TEST_F(RosterTest, ALossBeforeAllHaveFinishedTakesTheFinishersBack) {
  Start();
  Finished(1, 1);
  const Outbox out = roster_.Disconnect(2, "killed");
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(out[0].message->has_generation_ended());
  Send(1, JoinOf(0));
  Arrive(3, JoinOf(1));
  EXPECT_THAT(Finished(1, 1), IsEmpty());  // of the ended generation
  Finished(3, 2);
  EXPECT_FALSE(roster_.done());
  Finished(1, 2);
  EXPECT_TRUE(roster_.done());
}

TEST_F(RosterTest, WhoeverComesAfterTheEndIsReleasedAtOnce) {
  Start();
  Finished(1, 1);
  Finished(2, 1);
  const Outbox out = Arrive(3, JoinOf(1));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(out[0].message->has_released());
}

TEST_F(RosterTest, ProgressIsRankZerosOfTheCurrentGeneration) {
  Start();
  Beat(2, 1, 50);
  EXPECT_FALSE(roster_.progress().has_value());
  Beat(1, 0, 60);
  EXPECT_FALSE(roster_.progress().has_value());
  Beat(1, 1, 70);
  ASSERT_TRUE(roster_.progress().has_value());
  EXPECT_EQ(roster_.progress()->step(), 70);
}

TEST_F(RosterTest, StrangersAreRefusedNamingBothSidesAndDisturbNobody) {
  Start();
  const auto refusal = [&](SessionId id, const proto::Join& join) {
    const Outbox out = Arrive(id, join);
    EXPECT_EQ(out.size(), 1u);
    EXPECT_TRUE(out[0].close);
    return out[0].message->rejected().reason();
  };
  proto::Join join = JoinOf(1);
  join.set_cluster_hash("other hash");
  EXPECT_EQ(refusal(10, join),
            "worker 1 has the cluster hash \"other hash\", but the leader has \"leader's hash\"");
  join = JoinOf(1);
  join.set_job("cifar");
  EXPECT_THAT(refusal(11, join), HasSubstr("is of job \"cifar\""));
  join = JoinOf(2);
  EXPECT_THAT(refusal(12, join), HasSubstr("worker 2 is not one of the 2 members"));
  join = JoinOf(1);
  join.set_layout("M");
  EXPECT_EQ(refusal(13, join), "worker 1 has the parameter layout \"M\", but worker 0 has \"L\"");
  EXPECT_TRUE(roster_.active());
  EXPECT_EQ(roster_.generation(), 1u);
}

}  // namespace
}  // namespace lockstep::train
