#include "trainer/comm/gloo/caller_filter.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/listener.h"
#include "tests/support/http_request.h"
#include "tests/support/stranger.h"

namespace lockstep::train {
namespace {

using lockstep::testing::Stranger;
using lockstep::testing::TcpClient;

// False if nobody comes within a second.
bool SomebodyComes(const Listener& listener) {
  pollfd waiting{.fd = listener.socket.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 1000) == 1;
}

TEST(CallerFilterTest, OnlyCallersFromTheAddressesComeIn) {
  const std::vector<std::string> members = {"192.0.2.7", "127.0.0.9", "fd00::1", "no address"};
  const CallerFilter filter(members);
  const auto listener = ListenAt("127.0.0.1:0", 8);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(filter.status().ok()) << filter.status();
  const Stranger stranger(listener->port, "127.0.0.8");
  EXPECT_FALSE(SomebodyComes(*listener));
  for (const char* from : {"127.0.0.9", "127.0.0.1", "127.0.0.6"}) {
    TcpClient member(listener->port, {.from = from});
    ASSERT_TRUE(SomebodyComes(*listener)) << from;
    const Caller caller = Accept(*listener);
    ASSERT_TRUE(member.Send("word"));
    std::string got(4, ' ');
    pollfd readable{.fd = caller.socket.fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&readable, 1, 1000), 1);
    EXPECT_EQ(::recv(caller.socket.fd(), got.data(), got.size(), 0), 4);
    EXPECT_EQ(got, "word");
  }
}

TEST(CallerFilterTest, WithoutAddressesAndOnOtherThreadsAndAfterwardsAnybodyComesIn) {
  const std::vector<std::string> nobody, members = {"192.0.2.7"};
  absl::StatusOr<Listener> listener;
  const auto expect_open = [&] {
    listener = ListenAt("127.0.0.1:0", 8);
    ASSERT_TRUE(listener.ok()) << listener.status();
    TcpClient anybody(listener->port, {.from = "127.0.0.8"});
    EXPECT_TRUE(SomebodyComes(*listener));
  };
  {
    const CallerFilter filter(nobody);
    expect_open();
  }
  {
    const CallerFilter filter(members);
    std::thread(expect_open).join();
  }
  expect_open();
}

// What the kernel would make of a packet from there.
bool Passes(const std::vector<sock_filter>& program, const std::string& sender) {
  std::array<std::uint8_t, 40> header{};
  if (::inet_pton(AF_INET6, sender.c_str(), &header[8]) != 1) {
    EXPECT_EQ(::inet_pton(AF_INET, sender.c_str(), &header[12]), 1) << sender;
  }
  std::uint32_t loaded = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& step = program[at];
    switch (step.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&loaded, &header.at(step.k - static_cast<std::uint32_t>(SKF_NET_OFF)), 4);
        loaded = ntohl(loaded);
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += loaded == step.k ? step.jt : step.jf;
        break;
      case BPF_JMP | BPF_JA:
        at += step.k;
        break;
      default:
        return step.k != 0;
    }
  }
  return true;
}

TEST(CallerFilterTest, EachOfManyAddressesPassesAndNoOther) {
  std::vector<std::string> members;
  for (int i = 0; i < 2000; i += 2) {
    members.push_back("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250));
  }
  const std::vector<sock_filter> program = CallerProgram(AF_INET, members);
  EXPECT_LT(program.size(), 1100U) << "one for each, and little more";
  for (int i = 0; i < 2000; ++i) {
    const std::string sender = "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250);
    EXPECT_EQ(Passes(program, sender), i % 2 == 0) << sender;
  }
  const CallerFilter filter(members);
  EXPECT_TRUE(ListenAt("127.0.0.1:0", 8).ok());
  EXPECT_TRUE(filter.status().ok()) << filter.status();
}

TEST(CallerFilterTest, MoreAddressesThanAFilterHoldsAreReportedAndLeaveThePortOpen) {
  std::vector<std::string> members;
  for (int i = 0; i < 5000; ++i) {
    members.push_back("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250));
  }
  const CallerFilter filter(members);
  const auto listener = ListenAt("127.0.0.1:0", 8);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_FALSE(filter.status().ok());
  TcpClient anybody(listener->port, {.from = "127.0.0.8"});
  EXPECT_TRUE(SomebodyComes(*listener));
}

TEST(CallerFilterTest, Ipv6CallersAreComparedInAllFourWords) {
  const std::vector<std::string> members = {"fd00::1", "fd00::3", "fd00:0:1::1", "10.0.0.1"};
  const std::vector<sock_filter> program = CallerProgram(AF_INET6, members);
  for (const char* member : {"fd00::1", "fd00::3", "fd00:0:1::1", "::1", "::6"}) {
    EXPECT_TRUE(Passes(program, member)) << member;
  }
  for (const char* stranger :
       {"fd00::2", "fd01::1", "fd00::1:0:1", "fd00:0:0:1::1", "fd00::1:0:0:1", "::", "::2"}) {
    EXPECT_FALSE(Passes(program, stranger)) << stranger;
  }
  const CallerFilter filter(members);
  const auto listener = ListenAt("[::1]:0", 8);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(filter.status().ok()) << filter.status();
  TcpClient own(listener->port, {.ipv6 = true});
  EXPECT_TRUE(SomebodyComes(*listener));
}

}  // namespace
}  // namespace lockstep::train
