// Random lives of four processes against the rules that must hold whatever happens.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "trainer/control/membership.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 4;

class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed), roster_(Config()) {}

  void Step() {
    now_ += 100ms;
    switch (random_() % 8) {
      case 0:
        return Kill();
      case 1:
        return Vanish();
      case 2:
        return Deliver(roster_.Tick(now_));
      case 3:
        return FinishMost();
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
    processes_[id].finished = false;
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
      EXPECT_EQ(membership.rank(), process.worker);
      EXPECT_TRUE(told[membership.generation()].insert(membership.rank()).second);
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

}  // namespace
}  // namespace lockstep::train
