#include "trainer/rendezvous/gate/guest_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class GuestListTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kMost = 128;

  GuestList::Verdict Admit(const std::string& address) {
    return guests_.Admit(next_++, address, now_);
  }
  void Fill(const std::string& address) {
    while (guests_.size() < kMost) ASSERT_TRUE(Admit(address).admitted);
  }

  GuestList guests_{kMost};
  GuestList::Id next_ = 1;
  SteadyTime now_ = SteadyTime() + 1h;
};

TEST_F(GuestListTest, WhileThereIsRoomNobodyIsTurnedAway) {
  for (std::size_t i = 0; i < kMost; ++i) {
    const GuestList::Verdict verdict = Admit("nat");
    EXPECT_TRUE(verdict.admitted);
    EXPECT_FALSE(verdict.evicted);
  }
}

TEST_F(GuestListTest, WhoHoldsTheMostPlacesGivesThemUpToOtherAddressesAtOnce) {
  Fill("stranger");
  for (GuestList::Id oldest = 1; oldest <= 100; ++oldest) {
    const GuestList::Verdict verdict = Admit("member " + std::to_string(oldest));
    EXPECT_TRUE(verdict.admitted);
    EXPECT_EQ(verdict.evicted, oldest);
  }
}

TEST_F(GuestListTest, APodsProcessesAreNoCrowd) {
  for (int pod = 0; guests_.size() < kMost; ++pod) {
    for (int process = 0; process < 8; ++process) Admit("pod " + std::to_string(pod));
  }
  EXPECT_FALSE(Admit("late pod").admitted);
  EXPECT_EQ(guests_.size(), kMost);
}

TEST_F(GuestListTest, SilentGuestsOfTheSameAddressGoOneByOneForNewcomers) {
  Fill("nat");
  EXPECT_FALSE(Admit("nat").admitted);
  now_ += 500ms;
  EXPECT_EQ(Admit("nat").evicted, 1u);
  EXPECT_EQ(Admit("nat").evicted, 2u);
}

TEST_F(GuestListTest, TheLastPlaceOfManyAddressesIsFreedToo) {
  for (std::size_t i = 0; i < kMost; ++i) Admit("stranger " + std::to_string(i));
  EXPECT_FALSE(Admit("member").admitted);
  now_ += 500ms;
  EXPECT_TRUE(Admit("member").evicted.has_value());
}

TEST_F(GuestListTest, AMemberNeedsNoPlace) {
  Fill("nat");
  guests_.Prove(7, now_);
  EXPECT_FALSE(guests_.contains(7));
  const GuestList::Verdict verdict = Admit("nat");
  EXPECT_TRUE(verdict.admitted);
  EXPECT_FALSE(verdict.evicted);
  guests_.Remove(7);  // hangs up
  EXPECT_EQ(guests_.size(), kMost);
}

TEST_F(GuestListTest, ASleepyMemberDoesNotMakeStrangersStay) {
  Admit("member");
  now_ += 9s;
  guests_.Prove(1, now_);
  for (int i = 0; i < 20; ++i) {  // the next are as quick as ever
    Admit("member");
    guests_.Prove(next_ - 1, now_ + 1ms);
  }
  Fill("stranger");
  now_ += 500ms;
  EXPECT_TRUE(Admit("stranger").admitted);
}

TEST_F(GuestListTest, NobodyStaysForeverWithoutProof) {
  Admit("early");
  now_ += 6s;
  Admit("later");
  EXPECT_TRUE(guests_.Overdue(now_).empty());
  now_ += 4s;
  EXPECT_THAT(guests_.Overdue(now_), ElementsAre(1u));
}

// Members of a gang that calls in the same second, all from one address, each again after half a
// second if it was turned away or evicted. The leader proves one after the other, oldest first.
struct Crowd {
  int members = 0, evicted = 0;
  Duration took{};
};
Crowd GatherCrowd(int size, Duration for_each) {
  GuestList guests(128);
  GuestList::Id next = 1;
  std::multimap<SteadyTime, int> calls;
  for (int i = 0; i < size; ++i) calls.emplace(SteadyTime() + i * (Duration(1s) / size), i);
  std::deque<GuestList::Id> in;
  const SteadyTime start;
  SteadyTime now = start, free_at = start;
  Crowd crowd;
  while (crowd.members < size && now < start + 1h) {
    now = in.empty() ? calls.begin()->first
                     : (calls.empty() ? free_at : std::min(free_at, calls.begin()->first));
    if (!in.empty() && free_at <= now) {
      if (guests.contains(in.front())) {
        guests.Prove(in.front(), now);
        ++crowd.members;
      }
      in.pop_front();
      free_at = now + for_each;
      continue;
    }
    const auto call = calls.begin();
    const GuestList::Id id = next++;
    const GuestList::Verdict verdict = guests.Admit(id, "nat", now);
    if (verdict.admitted) {
      if (in.empty()) free_at = now + for_each;
      in.push_back(id);
    } else {
      calls.emplace(now + 500ms, call->second);
    }
    if (verdict.evicted) {
      ++crowd.evicted;
      calls.emplace(now + 500ms, 0);
    }
    calls.erase(call);
  }
  crowd.took = now - start;
  return crowd;
}

TEST(GuestCrowdTest, AGangBehindOneAddressComesInAsFastAsItIsServed) {
  const std::pair<int, Duration> gangs[] = {{8000, 100us}, {8000, 1ms}, {8000, 5ms}};
  for (const auto& [size, for_each] : gangs) {
    const Crowd crowd = GatherCrowd(size, for_each);
    EXPECT_EQ(crowd.members, size);
    EXPECT_LE(crowd.evicted, size / 100);
    EXPECT_LT(crowd.took, size * for_each * 5 / 4 + 3s);
  }
}

}  // namespace
}  // namespace lockstep::train
