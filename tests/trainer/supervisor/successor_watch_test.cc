#include "trainer/supervisor/successor_watch.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr SteadyTime kStart = SteadyTime() + 1h;

TEST(NameHistoryTest, OthersAddressesForSoLongTellOfASuccessor) {
  NameHistory name("10.0.0.1", 30s);
  EXPECT_FALSE(name.Note({"10.0.0.1"}, kStart));
  EXPECT_FALSE(name.Note({"10.0.0.2"}, kStart + 2s));
  EXPECT_FALSE(name.Note({"10.0.0.2"}, kStart + 31s));
  EXPECT_TRUE(name.Note({"10.0.0.2"}, kStart + 32s));
}

TEST(NameHistoryTest, ThePodsOwnAddressOrNoneProvesNothing) {
  NameHistory name("10.0.0.1", 30s);
  EXPECT_FALSE(name.Note({"10.0.0.1"}, kStart));
  EXPECT_FALSE(name.Note({}, kStart + 1h)) << "the pod is being deleted, or DNS is down";
  EXPECT_FALSE(name.Note({}, kStart + 2h));
  EXPECT_FALSE(name.Note({"10.0.0.2"}, kStart + 3h));
  EXPECT_FALSE(name.Note({"10.0.0.1", "10.0.0.2"}, kStart + 4h)) << "one server has it still";
  EXPECT_FALSE(name.Note({"10.0.0.2"}, kStart + 5h)) << "counts from here";
  EXPECT_FALSE(name.Note({"10.0.0.1"}, kStart + 5h + 10s));
}

TEST(NameHistoryTest, TheAddressOfThePodBeforeIsNoSuccessors) {
  NameHistory name("10.0.0.1", 30s);
  EXPECT_FALSE(name.Note({"10.0.0.0"}, kStart));
  EXPECT_FALSE(name.Note({"10.0.0.0"}, kStart + 1h));
}

TEST(AddressesOfTest, EachAddressHasOneForm) {
  using Addresses = std::set<std::string>;
  EXPECT_EQ(AddressesOf("127.0.0.1"), Addresses{"127.0.0.1"});
  EXPECT_EQ(AddressesOf("[::1]"), Addresses{"::1"});
  EXPECT_EQ(AddressesOf("0:0:0:0:0:0:0:1"), Addresses{"::1"});
  EXPECT_EQ(AddressesOf("not a name"), Addresses{});
}

}  // namespace
}  // namespace lockstep::train
