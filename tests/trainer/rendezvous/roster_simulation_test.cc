// Random lives of four processes against the rules that must hold whatever happens.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "trainer/rendezvous/roster.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 4;

class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed), roster_(Config()) {}

  void Step() {
    now_ += 100ms;
    switch (random_() % 9) {
      case 0:
        return Kill();
      case 1:
        return Vanish();
      case 2:
        return Deliver(roster_.Tick(now_));
      case 3:
        return FinishMost();
      case 4:
        return LeaveOne();
      default:
        return JoinOne();
    }
  }
  void Heartbeats() {
    for (const auto& [id, process] : processes_) {
      if (process.vanished) continue;
      proto::ReplicaMessage message;
      message.mutable_heartbeat();
      Deliver(roster_.Receive(id, message, now_));
    }
  }
  int generations() const { return generations_; }
  bool done() const { return roster_.done(); }

 private:
  struct Process {
    int worker = 0;
    bool vanished = false;        // dead, but its stream still looks open
    std::uint64_t member_of = 0;  // as it was told
    bool finished = false;
    bool left = false;  // asks for no further generation
  };

  static RosterConfig Config() {
    RosterConfig config;
    for (int i = 0; i < kWorkers; ++i) config.slots.push_back({"worker", i, 0});
    return config;
  }

  // The place's process, or a new one in a place whose process is dead.
  void JoinOne() {
    const int worker = static_cast<int>(random_() % kWorkers);
    SessionId id = 0;
    for (const auto& [session, process] : processes_) {
      if (process.worker == worker && !process.vanished) id = session;
    }
    if (id == 0) {
      id = ++last_session_;
      processes_[id].worker = worker;
      roster_.Connect(id, now_);
    } else if (processes_[id].member_of != 0 && random_() % 4 != 0) {
      return;  // members seldom ask again
    }
    processes_[id].member_of = 0;
    processes_[id].finished = processes_[id].left = false;
    proto::ReplicaMessage message;
    message.mutable_join()->set_role("worker");
    message.mutable_join()->set_index(worker);
    message.mutable_join()->set_incarnation(std::to_string(id));
    message.mutable_join()->set_last_generation(highest_);
    Deliver(roster_.Receive(id, message, now_));
  }

  void Kill() {
    if (processes_.empty()) return;
    const SessionId id = Any();
    processes_.erase(id);
    Deliver(roster_.Disconnect(id, "killed"));
  }

  // A process whose Join has failed. It ignores what the leader has told it meanwhile.
  void LeaveOne() {
    if (processes_.empty() || random_() % 4 != 0) return;
    const SessionId id = Any();
    Process& process = processes_[id];
    if (process.vanished || process.finished) return;
    process.left = true;
    process.member_of = 0;
    proto::ReplicaMessage message;
    message.mutable_leaving();
    Deliver(roster_.Receive(id, message, now_));
  }

  void Vanish() {
    if (!processes_.empty() && random_() % 4 == 0) processes_[Any()].vanished = true;
  }

  // The end of training: most members say so, one after the other.
  void FinishMost() {
    if (random_() % 8 != 0) return;
    std::vector<SessionId> members;
    for (const auto& [id, process] : processes_) {
      if (!process.vanished && process.member_of != 0 && random_() % 8 != 0) members.push_back(id);
    }
    for (const SessionId id : members) {
      processes_[id].finished = true;
      proto::ReplicaMessage message;
      message.mutable_finished()->set_generation(processes_[id].member_of);
      Deliver(roster_.Receive(id, message, now_));
    }
  }

  SessionId Any() {
    auto at = processes_.begin();
    std::advance(at, static_cast<int>(random_() % processes_.size()));
    return at->first;
  }

  void Deliver(const Outbox& outbox) {
    std::map<std::uint64_t, std::set<int>> told;  // generation -> ranks
    for (const Outgoing& out : outbox) {
      const auto at = processes_.find(out.to);
      if (at == processes_.end()) {
        ADD_FAILURE() << "a message to session " << out.to << ", which is gone";
        continue;
      }
      if (out.message) Tell(at->second, *out.message, told);
      if (out.close) processes_.erase(at);
    }
    for (const auto& [generation, ranks] : told) {
      EXPECT_EQ(ranks.size(), static_cast<std::size_t>(kWorkers)) << "generation " << generation;
      EXPECT_GT(generation, highest_) << "a number came again";
      highest_ = generation;
      ++generations_;
    }
    std::set<std::uint64_t> alive;
    for (const auto& [id, process] : processes_) {
      if (process.member_of != 0 && !process.vanished) alive.insert(process.member_of);
    }
    EXPECT_LE(alive.size(), 1u) << "live members of two generations";
    if (!alive.empty() && !roster_.done()) {
      EXPECT_TRUE(roster_.active()) << "a member of an ended generation was not told";
    }
  }

  void Tell(Process& process, const proto::CoordinatorMessage& message,
            std::map<std::uint64_t, std::set<int>>& told) {
    if (message.has_membership()) {
      const proto::Membership& membership = message.membership();
      EXPECT_EQ(membership.members(process.worker).index(), process.worker);
      EXPECT_TRUE(told[membership.generation()].insert(process.worker).second);
      EXPECT_FALSE(process.left) << "counted though it has left";
      EXPECT_EQ(process.member_of, 0u) << "told of a second generation without asking";
      process.member_of = membership.generation();
    } else if (message.has_generation_ended()) {
      EXPECT_EQ(message.generation_ended().generation(), process.member_of);
      process.member_of = 0;
    } else if (message.has_released()) {
      EXPECT_TRUE(process.finished || roster_.done());
    }
  }

  std::mt19937 random_;
  SteadyTime now_ = SteadyTime() + 1h;
  Roster roster_;
  std::map<SessionId, Process> processes_;
  SessionId last_session_ = 0;
  std::uint64_t highest_ = 0;
  int generations_ = 0;
};

TEST(MembershipSimulationTest, InvariantsHoldInRandomLives) {
  int generations = 0, done = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    for (int step = 0; step < 400 && !simulation.done(); ++step) {
      simulation.Step();
      if (step % 10 == 0) simulation.Heartbeats();
      if (::testing::Test::HasFailure()) return;
    }
    generations += simulation.generations();
    if (simulation.done()) ++done;
  }
  // The lives were not idle: the invariants were put to the test, and some trainings came to an
  // end.
  EXPECT_GT(generations, 1000);
  EXPECT_GT(done, 5);
}

// The same with what lies between processes: messages that travel, leaders that die and are
// replaced, and processes that know no other generations than their own.
class NetworkSimulation {
 public:
  explicit NetworkSimulation(unsigned seed) : random_(seed), roster_(Config()) {
    for (int worker = 0; worker < kWorkers; ++worker) Start(worker);
  }

  void Step() {
    now_ += 50ms;
    const int worker = static_cast<int>(random_() % kWorkers);
    switch (random_() % 300) {
      case 0:
        return ReplaceLeader();
      case 1:
        return Start(worker);  // in the place of the one that is there, which dies
      case 2:
        processes_[worker].hangs = true;
        return;
      default:
        break;
    }
    switch (random_() % 4) {
      case 0:
        return Act(processes_[worker]);
      case 1:
        return ToLeader(processes_[worker]);
      case 2:
        return ToProcess(processes_[worker]);
      default:
        return Route(roster_.Tick(now_));
    }
  }

  // Nothing goes wrong any more: soon all are members of one generation.
  bool Settles() {
    for (int round = 0; round < 400; ++round) {
      now_ += 100ms;
      for (auto& [worker, process] : processes_) {
        if (process.hangs) Start(worker);  // others give up, and so all are replaced
        Act(process);
        while (!process.to_leader.empty()) ToLeader(process);
        while (!process.inbox.empty()) ToProcess(process);
      }
      Route(roster_.Tick(now_));
      std::set<std::uint64_t> generations;
      for (const auto& [worker, process] : processes_) generations.insert(process.member_of);
      if (generations.size() == 1 && !generations.contains(0)) return true;
    }
    return false;
  }
  int generations() const { return static_cast<int>(told_.size()); }

 private:
  struct Process {
    int worker = 0;
    std::int64_t started = 0;
    bool hangs = false;  // its connection is open, and it says nothing
    SessionId session = 0;
    bool asked = false;
    std::uint64_t member_of = 0, last_generation = 0;
    std::deque<proto::ReplicaMessage> to_leader;
    std::deque<std::optional<proto::CoordinatorMessage>> inbox;  // nothing: the stream ends
  };

  static RosterConfig Config() {
    RosterConfig config;
    for (int i = 0; i < kWorkers; ++i) config.slots.push_back({"worker", i, 0});
    return config;
  }

  void Start(int worker) {
    Process& process = processes_[worker];
    if (process.session != 0) Route(roster_.Disconnect(process.session, "killed"));
    process = Process{.worker = worker, .started = ++last_start_};
  }

  // A new supervisor knows nothing; what was on the way to or from the old one is lost.
  void ReplaceLeader() {
    roster_ = Roster(Config());
    ++leader_;
    for (auto& [worker, process] : processes_) Unplug(process);
  }

  static void Unplug(Process& process) {
    process.session = 0;
    process.asked = false;
    process.member_of = 0;
    process.to_leader.clear();
    process.inbox.clear();
  }

  void Act(Process& process) {
    if (process.hangs) return;
    if (process.session == 0) {
      process.session = ++last_session_;
      roster_.Connect(process.session, now_);
    }
    proto::ReplicaMessage message;
    if (process.member_of == 0 && !process.asked) {
      process.asked = true;
      proto::Join& join = *message.mutable_join();
      join.set_role("worker");
      join.set_index(process.worker);
      join.set_incarnation(std::to_string(process.started));
      join.set_pod_started(process.started);
      join.set_last_generation(process.last_generation);
    } else {
      message.mutable_heartbeat()->set_generation(process.member_of);
    }
    process.to_leader.push_back(message);
  }

  void ToLeader(Process& process) {
    if (process.to_leader.empty()) return;
    const proto::ReplicaMessage message = process.to_leader.front();
    process.to_leader.pop_front();
    if (process.session != 0) Route(roster_.Receive(process.session, message, now_));
  }

  void Route(const Outbox& outbox) {
    for (const Outgoing& out : outbox) {
      for (auto& [worker, process] : processes_) {
        if (process.session != out.to) continue;
        if (out.message) process.inbox.emplace_back(*out.message);
        if (out.close) process.inbox.emplace_back(std::nullopt);
      }
    }
  }

  void ToProcess(Process& process) {
    if (process.inbox.empty()) return;
    const std::optional<proto::CoordinatorMessage> message = process.inbox.front();
    process.inbox.pop_front();
    if (!message) return Unplug(process);
    if (message->has_membership()) {
      const proto::Membership& membership = message->membership();
      EXPECT_GT(membership.generation(), process.last_generation) << "a number came again";
      EXPECT_EQ(membership.members_size(), kWorkers);
      EXPECT_EQ(membership.members(process.worker).index(), process.worker);
      const bool first = told_[{leader_, membership.generation()}].insert(process.worker).second;
      EXPECT_TRUE(first) << "two processes have one place";
      process.member_of = process.last_generation = membership.generation();
      process.asked = false;
    } else if (message->has_generation_ended()) {
      EXPECT_EQ(message->generation_ended().generation(), process.member_of);
      process.member_of = 0;
    } else if (message->has_rejected()) {
      ADD_FAILURE() << "the latest process of a place was refused";
    }
  }

  std::mt19937 random_;
  SteadyTime now_ = SteadyTime() + 1h;
  Roster roster_;
  int leader_ = 0;
  std::map<int, Process> processes_;  // by worker
  SessionId last_session_ = 0;
  std::int64_t last_start_ = 0;
  std::map<std::pair<int, std::uint64_t>, std::set<int>> told_;  // ranks, by leader and generation
};

TEST(MembershipSimulationTest, NumbersRiseAndAllMeetAgainWhateverMessagesAndLeadersDo) {
  int generations = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    NetworkSimulation simulation(seed);
    for (int step = 0; step < 2000; ++step) simulation.Step();
    EXPECT_TRUE(simulation.Settles());
    generations += simulation.generations();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(generations, 1000);
}

}  // namespace
}  // namespace lockstep::train
