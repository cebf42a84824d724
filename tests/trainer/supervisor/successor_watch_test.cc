#include "trainer/supervisor/successor_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr SteadyTime kLost = SteadyTime() + 1h;

TEST(NameHistoryTest, OthersAddressesForSoLongTellOfASuccessor) {
  NameHistory name("10.0.0.1", 30s);
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.1"}, kLost));
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.2"}, kLost + 2s));
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.2"}, kLost + 31s));
  EXPECT_TRUE(name.UpdateSuccessor({"10.0.0.2"}, kLost + 32s));
}

TEST(NameHistoryTest, ThePodsOwnAddressOrNoneProvesNothing) {
  NameHistory name("10.0.0.1", 30s);
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.1"}, kLost));
  EXPECT_FALSE(name.UpdateSuccessor({}, kLost + 1h)) << "the pod is being deleted, or DNS is down";
  EXPECT_FALSE(name.UpdateSuccessor({}, kLost + 2h));
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.2"}, kLost + 3h));
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.1", "10.0.0.2"}, kLost + 4h))
      << "one server has it still";
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.2"}, kLost + 5h)) << "counts from here";
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.1"}, kLost + 5h + 10s));
}

TEST(NameHistoryTest, TheAddressOfThePodBeforeIsNoSuccessors) {
  NameHistory name("10.0.0.1", 30s);
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.0"}, kLost));
  EXPECT_FALSE(name.UpdateSuccessor({"10.0.0.0"}, kLost + 1h));
}

TEST(SuccessorWatchTest, ItsEndWaitsForNoLook) {
  std::promise<void> asked, answer;
  const auto looks = [&asked, may_answer = std::shared_future(answer.get_future()),
                      is_first = true](const std::string&) mutable {
    if (std::exchange(is_first, false)) asked.set_value();
    may_answer.wait();  // as while DNS is down
    return std::set<std::string>{};
  };
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  std::optional<SuccessorWatch> watch;
  watch.emplace("host", "10.0.0.1", *std::move(pipe), SuccessorWatchOptions{.addresses_of = looks});
  asked.get_future().wait();
  watch.reset();  // a wait would be for ever
  answer.set_value();
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
