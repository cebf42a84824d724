#include "trainer/rendezvous/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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
    join.set_fingerprint("trainSamples=8;classes=2;");
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
  void Beat(SessionId id, std::uint64_t generation = 0, std::int64_t step = 0,
            proto::Activity activity = proto::ACTIVITY_UNKNOWN) {
    proto::ReplicaMessage message;
    message.mutable_heartbeat()->set_generation(generation);
    message.mutable_heartbeat()->set_activity(activity);
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
  EXPECT_EQ(both[0].message->membership().generation(), 1u);
  EXPECT_EQ(both[0].message->membership().members(0).step(), 7);
  EXPECT_EQ(both[1].to, 1u);
  EXPECT_EQ(both[1].message, both[0].message) << "a copy for each member takes much memory";
  EXPECT_THAT(roster_.Missing(), IsEmpty());
}

// All of them would be more than the operator reads of an answer.
TEST(RosterOfManyTest, TheFirst256MissingAreNamed) {
  RosterConfig config = TwoWorkers();
  for (int i = 2; i < 3000; ++i) config.slots.push_back({"worker", i, 0});
  const std::vector<std::string> missing = Roster(std::move(config)).Missing();
  ASSERT_EQ(missing.size(), 256U);
  EXPECT_EQ(missing.back(), "worker 255");
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

TEST_F(RosterTest, ANewProcessReplacesTheOldOneOfItsPlaceWhichLearnsSo) {
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
  EXPECT_EQ(out[0].message->generation_ended().reason(),
            "worker 1 has lost its connection to the leader");
  EXPECT_EQ(out[1].to, 2u);
  EXPECT_TRUE(out[1].close);
  EXPECT_EQ(out[1].message, nullptr);
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

TEST_F(RosterTest, WaitingMembersLearnEverySecondWhoIsMissing) {
  Arrive(1, JoinOf(0));
  Pass(1s);
  Beat(1);
  const Outbox out = Pass(3s);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_THAT(out[2].message->waiting().missing(), ElementsAre("worker 1"));
}

// What the waiting session 2 learns a second later, while session 1 does this.
class BusyMemberTest : public RosterTest {
 protected:
  BusyMemberTest() {
    Start();
    Send(2, JoinOf(1));  // ends the generation
    EXPECT_FALSE(roster_.active());
  }
  std::vector<std::string> BusyDuring(proto::Activity activity) {
    Beat(1, 0, 0, activity);
    Beat(2);
    const Outbox out = Pass(1s);
    EXPECT_EQ(out.size(), 1u);
    EXPECT_THAT(out.at(0).message->waiting().missing(), ElementsAre("worker 0"));
    EXPECT_THAT(out.at(0).message->waiting().absent(), IsEmpty());
    const auto& busy = out.at(0).message->waiting().busy();
    return {busy.begin(), busy.end()};
  }
};

TEST_F(BusyMemberTest, OneThatStillSavesOrSharesItsStateIsListed) {
  EXPECT_THAT(BusyDuring(proto::ACTIVITY_CHECKPOINT), ElementsAre("worker 0"));
  EXPECT_THAT(BusyDuring(proto::ACTIVITY_SHARING_STATE), ElementsAre("worker 0"));
  EXPECT_THAT(BusyDuring(proto::ACTIVITY_STEP), IsEmpty());
}

TEST_F(BusyMemberTest, OneThatDoesSoForHalfAnHourIsNot) {
  for (int second = 1; second < 30 * 60; ++second) {
    ASSERT_THAT(BusyDuring(proto::ACTIVITY_CHECKPOINT), ElementsAre("worker 0"));
  }
  EXPECT_THAT(BusyDuring(proto::ACTIVITY_CHECKPOINT), IsEmpty());
}

TEST_F(BusyMemberTest, OneThatFallsSilentWhileItSavesIsLost) {
  ASSERT_THAT(BusyDuring(proto::ACTIVITY_CHECKPOINT), ElementsAre("worker 0"));
  std::optional<proto::Waiting> waiting;
  for (int second = 0; second < 5; ++second) {
    Beat(2);
    for (const Outgoing& out : Pass(1s)) {
      if (out.to == 2 && out.message) waiting = out.message->waiting();
    }
  }
  ASSERT_TRUE(waiting.has_value());
  EXPECT_THAT(waiting->busy(), IsEmpty());
  EXPECT_THAT(waiting->absent(), ElementsAre("worker 0")) << "may be replaced";
}

class LeavingMemberTest : public RosterTest {
 protected:
  Outbox Leave(SessionId id) {
    proto::ReplicaMessage message;
    message.mutable_leaving();
    return roster_.Receive(id, message, now_);
  }
};

TEST_F(LeavingMemberTest, OneThatWaitedIsNotCountedButWaitedForWhileItSaves) {
  Arrive(1, JoinOf(0));
  EXPECT_THAT(Leave(1), IsEmpty());
  Arrive(2, JoinOf(1));
  EXPECT_FALSE(roster_.active());
  Beat(1, 0, 0, proto::ACTIVITY_CHECKPOINT);
  const Outbox out = Pass(1s);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_THAT(out[0].message->waiting().busy(), ElementsAre("worker 0"));
  roster_.Disconnect(1, "it exited");
  Arrive(3, JoinOf(0));
  EXPECT_TRUE(roster_.active());
}

TEST_F(LeavingMemberTest, OneThatWasCountedBeforeItSaidSoEndsTheGeneration) {
  Start();
  const Outbox out = Leave(1);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, 2u);
  EXPECT_THAT(out[0].message->generation_ended().reason(), HasSubstr("worker 0 leaves"));
  EXPECT_FALSE(roster_.active());
}

TEST_F(LeavingMemberTest, AStrangerThatLeavesDisturbsNobody) {
  Start();
  roster_.Connect(3, now_);
  EXPECT_THAT(Leave(3), IsEmpty());
  EXPECT_TRUE(roster_.active());
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
  roster_.Connect(3, now_);
  EXPECT_FALSE(roster_.drained());
  roster_.Disconnect(1, "it left");
  EXPECT_TRUE(roster_.drained()) << "a stranger holds nobody up";
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

// Its own job's leader may get this address next; told to exit, it would end that job.
TEST_F(RosterTest, AStrangerAfterTheEndIsNeitherReleasedNorRejected) {
  Start();
  Finished(1, 1);
  Finished(2, 1);
  proto::Join stranger = JoinOf(1);
  stranger.set_cluster_hash("another job's hash");
  const Outbox out = Arrive(3, stranger);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, 3u);
  EXPECT_EQ(out[0].message, nullptr);
  EXPECT_TRUE(out[0].close);
  EXPECT_THAT(out[0].log, HasSubstr("another job's hash"));
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
  roster_.Disconnect(2, "its connection closed");
  Beat(3, 0, 75);
  EXPECT_EQ(roster_.progress()->step(), 70);
  Beat(1, 0, 80);
  EXPECT_EQ(roster_.progress()->step(), 80) << "its last numbers, before it ends";
}

TEST_F(RosterTest, TheLeaderSavesAsLongAsItSaysSo) {
  Start();
  Beat(2, 1, 0, proto::ACTIVITY_CHECKPOINT);
  EXPECT_FALSE(roster_.LeaderSaves()) << "worker 1 does";
  Beat(1, 1, 0, proto::ACTIVITY_CHECKPOINT);
  roster_.Disconnect(2, "its connection closed");
  EXPECT_TRUE(roster_.LeaderSaves()) << "between generations, too";
  Beat(1, 0, 0, proto::ACTIVITY_UNKNOWN);
  EXPECT_FALSE(roster_.LeaderSaves());
  Beat(1, 0, 0, proto::ACTIVITY_CHECKPOINT);
  roster_.Disconnect(1, "its connection closed");
  EXPECT_FALSE(roster_.LeaderSaves());
}

TEST_F(RosterTest, StrangersAreRefusedAndDisturbNobodyAndOnlyTheLeaderLearnsWhy) {
  Start();
  const auto refusal = [&](SessionId id, const proto::Join& join) {
    Outbox out = Arrive(id, join);
    EXPECT_EQ(out.size(), 1u);
    EXPECT_TRUE(out[0].close);
    return std::pair(out[0].message->rejected().reason(), out[0].log);
  };
  proto::Join join = JoinOf(1);
  join.set_cluster_hash("other hash");
  auto [reason, log] = refusal(10, join);
  EXPECT_THAT(reason, HasSubstr("the cluster hash \"other hash\", which is not the leader's"));
  EXPECT_THAT(reason, Not(HasSubstr("leader's hash")));
  EXPECT_THAT(log, HasSubstr("expected \"leader's hash\""));
  join = JoinOf(1);
  join.set_job("cifar");
  std::tie(reason, log) = refusal(11, join);
  EXPECT_THAT(reason, HasSubstr("is of job \"cifar\""));
  EXPECT_THAT(reason, Not(HasSubstr("mnist")));
  EXPECT_THAT(log, HasSubstr("expected job \"mnist\""));
  join = JoinOf(2);
  std::tie(reason, log) = refusal(12, join);
  EXPECT_THAT(reason, HasSubstr("worker 2 is not one of the members"));
  EXPECT_THAT(log, HasSubstr("of the 2 members"));
  join = JoinOf(1);
  join.set_fingerprint("trainSamples=7;classes=2;");
  std::tie(reason, log) = refusal(13, join);
  EXPECT_EQ(reason, "worker 1 has trainSamples=7, expected trainSamples=8 as worker 0 has it");
  EXPECT_EQ(log,
            "refused: worker 1 with trainSamples=7, expected trainSamples=8 as worker 0 has it");
  join = JoinOf(1);
  join.set_last_generation(std::numeric_limits<std::uint64_t>::max());
  EXPECT_THAT(refusal(14, join).first, HasSubstr("claims to have been in generation 1844674407"));
  EXPECT_TRUE(roster_.active());
  EXPECT_EQ(roster_.generation(), 1u);
}

TEST_F(RosterTest, MembersLearnTheAddressesOfAll) {
  proto::Join first = JoinOf(0), second = JoinOf(1);
  first.set_address("192.0.2.7");
  second.set_address(std::string(46, '1'));  // longer than an address can be
  Arrive(1, first);
  const Outbox out = Arrive(2, second);
  ASSERT_TRUE(roster_.active());
  const auto& members = out.back().message->membership().members();
  ASSERT_EQ(members.size(), 2);
  EXPECT_EQ(members[0].address(), "192.0.2.7");
  EXPECT_EQ(members[1].address(), "");
}

TEST_F(RosterTest, OfTwoProcessesOfOnePlaceTheLaterOneHasIt) {
  const auto of = [&](std::int64_t pod, std::int64_t process) {
    proto::Join join = JoinOf(1);
    join.set_incarnation(std::to_string(pod) + "-" + std::to_string(process));
    join.set_pod_started(pod);
    join.set_process_number(process);
    return join;
  };
  Arrive(1, JoinOf(0));
  Arrive(2, of(10, 11));
  ASSERT_TRUE(roster_.active());
  for (const proto::Join& earlier : {of(9, 100), of(10, 10)}) {
    const Outbox out = Arrive(3, earlier);
    ASSERT_EQ(out.size(), 1u);
    EXPECT_TRUE(out[0].close);
    EXPECT_EQ(out[0].message, nullptr);
    EXPECT_TRUE(roster_.active());
  }
  const Outbox out = Arrive(4, of(12, 13));
  EXPECT_FALSE(roster_.active());
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[1].to, 2u);
  EXPECT_TRUE(out[1].message->rejected().superseded());
  roster_.Disconnect(4, "killed");  // and then even the lost one is better than none
  EXPECT_THAT(Arrive(5, of(9, 100)).back().message->waiting().missing(), ElementsAre("worker 0"));
}

TEST_F(RosterTest, WaitingMembersLearnWhoCannotHaveComeYet) {
  RosterConfig config = TwoWorkers();
  config.slots.push_back({"worker", 2, 0});
  config.hosts = {"a", "b", "c"};
  roster_ = Roster(config);
  roster_.Tick(now_);
  const auto absent = [&](const Outbox& out) {
    const auto& names = out.back().message->waiting().absent();
    return std::vector<std::string>(names.begin(), names.end());
  };
  EXPECT_THAT(absent(Arrive(1, JoinOf(0))), IsEmpty());
  EXPECT_THAT(roster_.MissingHosts(), ElementsAre("b", "c"));
  roster_.SetHostsWithoutAddress({"c"});
  EXPECT_THAT(absent(Arrive(2, JoinOf(1))), ElementsAre("worker 2"));
  roster_.SetHostsWithoutAddress({});
  roster_.Disconnect(2, "killed");
  EXPECT_THAT(absent(Send(1, JoinOf(0))), ElementsAre("worker 1"));  // it is to be replaced
  EXPECT_THAT(absent(Arrive(3, JoinOf(1))), IsEmpty());
}

TEST_F(RosterTest, AMemberWhosePodStaysIsNotWaitedForWithoutEnd) {
  RosterConfig config = TwoWorkers();
  config.given_up_within = std::chrono::seconds(20);
  roster_ = Roster(config);
  roster_.Tick(now_);
  const auto is_absent = [&] {
    return Send(1, JoinOf(0)).back().message->waiting().absent_size() > 0;
  };
  Arrive(1, JoinOf(0));
  Arrive(2, JoinOf(1));
  roster_.Disconnect(2, "nothing heard");
  for (int second = 0; second < 20; ++second) {
    EXPECT_TRUE(is_absent()) << second;
    now_ += std::chrono::seconds(1);
    roster_.Tick(now_);
  }
  EXPECT_FALSE(is_absent());
  EXPECT_THAT(roster_.LostPods(), ElementsAre("worker-1"));
}

TEST_F(RosterTest, APodIsLostWithTheLastOfItsProcesses) {
  RosterConfig config = TwoWorkers();
  config.slots = {{"chief", 0, 0}, {"chief", 0, 1}, {"worker", 0, 0}, {"worker", 0, 1}};
  roster_ = Roster(config);
  const auto join = [&](const Slot& slot) {
    proto::Join message = JoinOf(slot.index);
    message.set_role(slot.role);
    message.set_local_rank(slot.local_rank);
    return message;
  };
  for (SessionId id = 0; id < 4; ++id) Arrive(id + 1, join(config.slots[id]));
  ASSERT_TRUE(roster_.active());
  EXPECT_THAT(roster_.LostPods(), IsEmpty());
  roster_.Disconnect(3, "killed");
  EXPECT_THAT(roster_.LostPods(), IsEmpty());
  roster_.Disconnect(4, "killed");
  EXPECT_THAT(roster_.LostPods(), ElementsAre("worker-0"));
  roster_.Connect(5, now_);  // whoever that is
  EXPECT_THAT(roster_.LostPods(), ElementsAre("worker-0"));
  Send(5, join(config.slots[3]));
  EXPECT_THAT(roster_.LostPods(), IsEmpty());
}

TEST_F(RosterTest, WhoeverHangsInTheLastGenerationIsAStraggler) {
  Start();
  Beat(2, 1, 5, proto::ACTIVITY_STEP);
  EXPECT_THAT(roster_.Stragglers(), IsEmpty());
  EXPECT_EQ(roster_.StragglerCount(), 0);
  Send(1, JoinOf(0));
  now_ += 39s;
  Beat(2, 1, 5, proto::ACTIVITY_STEP);
  EXPECT_THAT(roster_.Stragglers(), IsEmpty()) << "it may pause before it joins again";
  EXPECT_EQ(roster_.StragglerCount(), 1);
  now_ += 1s;
  Beat(2, 1, 5, proto::ACTIVITY_STEP);
  const std::vector<proto::Straggler> found = roster_.Stragglers();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].replica(), "worker-1");
  EXPECT_EQ(found[0].rank(), 1);
  EXPECT_EQ(found[0].activity(), proto::ACTIVITY_STEP);
  Beat(2, 1, 5, proto::ACTIVITY_CHECKPOINT);
  EXPECT_THAT(roster_.Stragglers(), IsEmpty()) << "it may take its time";
  EXPECT_EQ(roster_.StragglerCount(), 0);
  Beat(2, 1, 5, proto::ACTIVITY_STEP);
  roster_.Disconnect(2, "gone");
  EXPECT_THAT(roster_.Stragglers(), IsEmpty());
  EXPECT_EQ(roster_.StragglerCount(), 0);
}

TEST_F(LeavingMemberTest, OneThatLeavesIsNoStraggler) {
  Start();
  Send(1, JoinOf(0));
  Send(2, JoinOf(1));
  ASSERT_TRUE(roster_.active());
  Send(1, JoinOf(0));
  Leave(2);
  now_ += 1min;
  Beat(2, 0, 5);
  EXPECT_THAT(roster_.Stragglers(), IsEmpty());
  EXPECT_EQ(roster_.StragglerCount(), 0);
}

TEST_F(RosterTest, WhatWasToldOfAGenerationDoesNotCountInTheNext) {
  Start();
  const auto beat = [&](SessionId id, proto::StepPart part) {
    proto::ReplicaMessage message;
    message.mutable_heartbeat()->set_generation(1);
    message.mutable_heartbeat()->set_activity(proto::ACTIVITY_STEP);
    message.mutable_heartbeat()->set_step_part(part);
    roster_.Receive(id, message, now_);
  };
  beat(1, proto::STEP_PART_PEERS);
  beat(2, proto::STEP_PART_COMPUTE);
  ASSERT_EQ(roster_.Stragglers().size(), 1u);
  Send(1, JoinOf(0));
  Send(2, JoinOf(1));
  ASSERT_TRUE(roster_.active());
  EXPECT_THAT(roster_.Stragglers(), IsEmpty());
}

TEST_F(RosterTest, OfManyThatHangAFewAreNamedAndAllCounted) {
  constexpr int kMembers = 10;
  RosterConfig config = TwoWorkers();
  for (int worker = 2; worker < kMembers; ++worker) config.slots.push_back({"worker", worker, 0});
  roster_ = Roster(config);
  for (int worker = 0; worker < kMembers; ++worker) {
    Arrive(static_cast<SessionId>(worker + 1), JoinOf(worker));
  }
  ASSERT_TRUE(roster_.active());
  Send(1, JoinOf(0));
  now_ += 1min;
  Beat(1);
  EXPECT_EQ(roster_.Stragglers().size(), 8u);
  EXPECT_EQ(roster_.StragglerCount(), kMembers - 1);
  EXPECT_EQ(roster_.Missing().size(), std::size_t{kMembers - 1});
}

// What the members of the generation that `out` starts learn of the one before.
bool IsAfterLoss(const Outbox& out) {
  EXPECT_TRUE(out.back().message->has_membership());
  return out.back().message->membership().after_loss();
}

TEST_F(RosterTest, ALossIsToldWhoeverNoticesItFirst) {
  Arrive(1, JoinOf(0));
  EXPECT_FALSE(IsAfterLoss(Arrive(2, JoinOf(1))));
  Send(1, JoinOf(0));  // as after an error of the communicator
  EXPECT_FALSE(IsAfterLoss(Send(2, JoinOf(1)))) << "all are still there";
  Send(1, JoinOf(0));
  roster_.Disconnect(2, "killed");
  proto::Join successor = JoinOf(1);
  successor.set_incarnation("second of worker 1");
  EXPECT_TRUE(IsAfterLoss(Arrive(3, successor))) << "worker 0 has noticed it before the leader";
  roster_.Disconnect(3, "killed");
  Send(1, JoinOf(0));
  EXPECT_TRUE(IsAfterLoss(Arrive(4, JoinOf(1)))) << "the leader has noticed it first";
  Send(1, JoinOf(0));
  EXPECT_TRUE(IsAfterLoss(Arrive(5, successor))) << "it was started again";
  Send(1, JoinOf(0));
  EXPECT_FALSE(IsAfterLoss(Send(5, successor)));
}

TEST_F(RosterTest, AWaitingProcessThatWasInNoGenerationIsNoLossOfOne) {
  Arrive(1, JoinOf(0));
  roster_.Disconnect(1, "killed");
  Arrive(2, JoinOf(1));
  EXPECT_FALSE(IsAfterLoss(Arrive(3, JoinOf(0))));
}

// A leader that dies together with another member: its successor has never seen that one.
TEST(RosterOfManyTest, WhoWasLostWithAnEarlierLeaderIsKnownFromThoseThatWereNot) {
  RosterConfig config;
  config.job = "mnist";
  config.cluster_hash = "hash";
  config.slots = {{"worker", 0, 0}, {"worker", 0, 1}, {"worker", 1, 0}, {"worker", 2, 0}};
  SteadyTime now = SteadyTime() + 1h;
  Roster roster(config);
  roster.Tick(now);
  const auto join = [&](SessionId id, int worker, int local_rank, std::uint64_t last_generation) {
    roster.Connect(id, now);
    proto::ReplicaMessage message;
    proto::Join& sent = *message.mutable_join();
    sent.set_cluster_hash("hash");
    sent.set_job("mnist");
    sent.set_role("worker");
    sent.set_index(worker);
    sent.set_local_rank(local_rank);
    sent.set_incarnation("of " + std::to_string(id));
    sent.set_last_generation(last_generation);
    return roster.Receive(id, message, now);
  };
  join(1, 0, 0, 0);
  EXPECT_THAT(roster.LostPods(), IsEmpty());
  const Outbox out = join(2, 1, 0, 7);
  EXPECT_THAT(roster.LostPods(), IsEmpty()) << "it may still be looking for this leader";
  ASSERT_EQ(out.size(), 1u);
  EXPECT_THAT(out[0].message->waiting().absent(), ElementsAre("worker 2"));
  EXPECT_EQ(out[0].message->waiting().missing_count(), 2u) << "the leader's own second one, too";
  now += 29s;
  roster.Tick(now);
  EXPECT_THAT(roster.LostPods(), IsEmpty());
  now += 1s;
  roster.Tick(now);
  EXPECT_THAT(roster.LostPods(), ElementsAre("worker-2"));
  join(3, 2, 0, 7);
  EXPECT_THAT(roster.LostPods(), IsEmpty());
  const Outbox all = join(4, 0, 1, 0);
  ASSERT_TRUE(roster.active());
  EXPECT_TRUE(all.back().message->membership().after_loss()) << "of its leader";
  EXPECT_EQ(roster.generation(), 8u);
}

TEST_F(RosterTest, AStrangerThatOnlyBeatsIsNotKept) {
  roster_.Connect(7, now_);
  Outbox out;
  for (int second = 0; second < 11 && out.empty(); ++second) {
    Beat(7);
    out = Pass(1s);
  }
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, 7u);
  EXPECT_TRUE(out[0].close);
}

TEST_F(RosterTest, OfManyThatAreMissingAFewAreNamedAndAllCounted) {
  constexpr int kMembers = 2000;
  RosterConfig config = TwoWorkers();
  config.slots.clear();
  std::set<std::string> hosts;
  for (int worker = 0; worker < kMembers; ++worker) {
    config.slots.push_back({"worker", worker, 0});
    config.hosts.push_back("host-" + std::to_string(worker));
    hosts.insert(config.hosts.back());
  }
  roster_ = Roster(config);
  roster_.Tick(now_);
  roster_.SetHostsWithoutAddress(hosts);
  for (int worker = kMembers; --worker > 0;) {
    const Outbox out = Arrive(static_cast<SessionId>(worker), JoinOf(worker));
    ASSERT_EQ(out.size(), 1u);
    const proto::Waiting& waiting = out[0].message->waiting();
    ASSERT_EQ(waiting.missing_count(), static_cast<std::uint32_t>(worker));
    ASSERT_EQ(waiting.missing_size(), std::min(worker, 8));
    ASSERT_EQ(waiting.absent_size(), std::min(worker, 8));
    ASSERT_EQ(waiting.missing(0), "worker 0");
  }
  const Outbox told = Pass(1s);
  ASSERT_EQ(told.size(), std::size_t{kMembers - 1});
  for (const Outgoing& out : told) EXPECT_LT(out.message->ByteSizeLong(), 64u);
  const Outbox out = Arrive(kMembers, JoinOf(0));
  ASSERT_EQ(out.size(), std::size_t{kMembers});
  EXPECT_TRUE(roster_.active());
}

TEST_F(RosterTest, WhoTakesAnotherPlaceLeavesItsFirst) {
  Arrive(1, JoinOf(0));
  EXPECT_THAT(Send(1, JoinOf(1)).back().message->waiting().missing(), ElementsAre("worker 0"));
  Arrive(2, JoinOf(0));
  EXPECT_TRUE(roster_.active());
}

}  // namespace
}  // namespace lockstep::train
