#include "operator/progress/pod_connections.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "base/descriptor.h"
#include "base/listener.h"
#include "tests/support/eventually.h"

namespace lockstep::progress {
namespace {

using testing::Eventually;

// A pod that accepts every connection.
class Pod {
 public:
  Pod() : listener_(*ListenAt("127.0.0.1:0", 1)) {}
  int port() const { return listener_.port; }
  Descriptor Accepted() const {
    pollfd waiting{listener_.socket.fd(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
    return Accept(listener_).socket;
  }

 private:
  const Listener listener_;
};

// A pod that has accepted one connection.
class PodConnectionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = connections_.Open("127.0.0.1", pod_.port());
    ASSERT_TRUE(opened.ok()) << opened.status();
    opened_ = *std::move(opened);
    caller_ = pod_.Accepted();
  }

  PodConnections connections_{100};
  const Pod pod_;
  PodConnections::Opened opened_;
  Descriptor caller_;  // the pod's end
};

TEST_F(PodConnectionsTest, APodThatTakesWhatIsSentIsAllowedMore) {
  ASSERT_EQ(::send(opened_.socket.fd(), "question", 8, 0), 8);
  char question[8];
  EXPECT_TRUE(Eventually([&] { return ::recv(caller_.fd(), question, sizeof question, 0) == 8; }));
  EXPECT_TRUE(connections_.KeepsUp(opened_.id));
  EXPECT_TRUE(connections_.Allow(opened_.id));
}

TEST_F(PodConnectionsTest, APodThatDoesNotReadIsNotAskedAgainOnItsConnection) {
  const std::string much(100'000, 'x');
  EXPECT_TRUE(Eventually([&] {
    ::send(opened_.socket.fd(), much.data(), much.size(), MSG_NOSIGNAL);
    return !connections_.KeepsUp(opened_.id);
  }));
  EXPECT_FALSE(connections_.Allow(opened_.id));
}

TEST_F(PodConnectionsTest, AConnectionThatHasEndedKeepsUpWithNothing) {
  caller_.Close();
  EXPECT_TRUE(Eventually([&] { return !connections_.KeepsUp(opened_.id); }));
  EXPECT_FALSE(connections_.Allow(opened_.id));
}

TEST(PodConnectionsAddressTest, APodMayHaveAnIpv6Address) {
  absl::StatusOr<Listener> pod = ListenAt("[::1]:0", 1);
  if (!pod.ok()) GTEST_SKIP() << "no IPv6 here: " << pod.status();
  PodConnections connections{100};
  const auto opened = connections.Open("::1", pod->port);  // as podIP says it
  ASSERT_TRUE(opened.ok()) << opened.status();
  pollfd waiting{pod->socket.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, -1), 1);
}

TEST(PodConnectionsAddressTest, WhatIsNoAddressIsRefused) {
  PodConnections connections{100};
  for (const char* host : {"localhost", "[::1]", ""}) {
    EXPECT_TRUE(absl::IsInvalidArgument(connections.Open(host, 1).status())) << host;
  }
}

}  // namespace
}  // namespace lockstep::progress
