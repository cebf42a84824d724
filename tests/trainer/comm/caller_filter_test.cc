#include "trainer/comm/gloo/caller_filter.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/listener.h"
#include "tests/support/http_request.h"
#include "tests/support/ipv6.h"
#include "tests/support/stranger.h"

namespace lockstep::train {
namespace {

using lockstep::testing::Stranger;
using lockstep::testing::TcpClient;

thread_local bool refuses_filters = false;  // for want of memory, as a kernel may

// False if nobody comes within a second.
bool SomebodyComes(const Listener& listener) {
  pollfd waiting{.fd = listener.socket.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 1000) == 1;
}

TEST(CallerFilterTest, OnlyCallersFromTheAddressAndThisPodComeIn) {
  const CallerFilter filter("127.0.0.9");
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

TEST(CallerFilterTest, WithoutAnAddressAndOnOtherThreadsAndAfterwardsAnybodyComesIn) {
  absl::StatusOr<Listener> listener;
  const auto expect_open = [&] {
    listener = ListenAt("127.0.0.1:0", 8);
    ASSERT_TRUE(listener.ok()) << listener.status();
    TcpClient anybody(listener->port, {.from = "127.0.0.8"});
    EXPECT_TRUE(SomebodyComes(*listener));
  };
  {
    const CallerFilter filter("");
    expect_open();
  }
  {
    const CallerFilter filter("192.0.2.7");
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
      default:
        return step.k != 0;
    }
  }
  return true;
}

TEST(CallerFilterTest, OneAddressPassesAndNoOther) {
  const std::vector<sock_filter> program = CallerProgram(AF_INET, "10.0.3.7");
  for (const char* member : {"10.0.3.7", "127.0.0.1", "127.0.0.6"}) {
    EXPECT_TRUE(Passes(program, member)) << member;
  }
  for (const char* stranger : {"10.0.3.6", "10.0.3.8", "10.0.2.7", "7.3.0.10", "0.0.0.0"}) {
    EXPECT_FALSE(Passes(program, stranger)) << stranger;
  }
  for (const char* other : {"fd00::1", "no address"}) {  // nobody but this pod
    EXPECT_TRUE(Passes(CallerProgram(AF_INET, other), "127.0.0.1"));
    EXPECT_FALSE(Passes(CallerProgram(AF_INET, other), "10.0.3.7"));
  }
}

TEST(CallerFilterTest, AFilterThatTheKernelRefusesIsReportedAndLeavesThePortOpen) {
  const CallerFilter filter("192.0.2.7");
  refuses_filters = true;
  const auto listener = ListenAt("127.0.0.1:0", 8);
  refuses_filters = false;
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kUnavailable) << filter.status();
  TcpClient anybody(listener->port, {.from = "127.0.0.8"});
  EXPECT_TRUE(SomebodyComes(*listener));
}

TEST(CallerFilterTest, Ipv6CallersAreComparedInAllFourWords) {
  const std::vector<sock_filter> program = CallerProgram(AF_INET6, "fd00:0:1::1");
  for (const char* member : {"fd00:0:1::1", "::1", "::6"}) {
    EXPECT_TRUE(Passes(program, member)) << member;
  }
  for (const char* stranger : {"fd00:0:1::2", "fd01:0:1::1", "fd00:0:2::1", "fd00::1",
                               "fd00:0:1::1:0:1", "fd00:0:1:0:0:1::1", "::", "::2"}) {
    EXPECT_FALSE(Passes(program, stranger)) << stranger;
  }
  if (!lockstep::testing::HasIpv6()) GTEST_SKIP() << "no IPv6 here for a caller";
  const CallerFilter filter("fd00:0:1::1");
  const auto listener = ListenAt("[::1]:0", 8);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(filter.status().ok()) << filter.status();
  TcpClient own(listener->port, {.ipv6 = true});
  EXPECT_TRUE(SomebodyComes(*listener));
}

}  // namespace
}  // namespace lockstep::train

// Replaces the C library's setsockopt() for this program.
extern "C" __attribute__((visibility("default"))) int setsockopt(int socket, int level, int name,
                                                                 const void* value,
                                                                 socklen_t size) noexcept {
  if (lockstep::train::refuses_filters && level == SOL_SOCKET && name == SO_ATTACH_FILTER) {
    errno = ENOMEM;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_setsockopt, socket, level, name, value, size));
}
