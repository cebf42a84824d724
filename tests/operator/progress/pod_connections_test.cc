#include "operator/progress/pod_connections.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

namespace lockstep::progress {
namespace {

using namespace std::chrono_literals;

// A pod: whoever connects is accepted.
class Pod {
 public:
  Pod() : listener_(*ListenAt("127.0.0.1:0", 1)) {}
  int port() const { return listener_.port; }
  Socket Accepted() const {
    pollfd waiting{listener_.socket.fd(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
    return Accept(listener_).socket;
  }

 private:
  const Listener listener_;
};

template <typename Holds>
bool Eventually(Holds holds) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(PodConnectionsTest, APodThatTakesWhatIsSentIsAllowedMore) {
  PodConnections connections(100);
  const Pod pod;
  const auto opened = connections.Open("127.0.0.1", pod.port());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Socket caller = pod.Accepted();
  ASSERT_EQ(::send(opened->socket.fd(), "question", 8, 0), 8);
  char question[8];
  EXPECT_TRUE(Eventually([&] { return ::recv(caller.fd(), question, sizeof question, 0) == 8; }));
  EXPECT_TRUE(connections.KeepsUp(opened->id));
  EXPECT_TRUE(connections.Allow(opened->id));
}

TEST(PodConnectionsTest, APodThatDoesNotReadIsNotAskedAgainOnItsConnection) {
  PodConnections connections(100);
  const Pod pod;
  const auto opened = connections.Open("127.0.0.1", pod.port());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Socket caller = pod.Accepted();
  const std::string much(100'000, 'x');
  EXPECT_TRUE(Eventually([&] {
    ::send(opened->socket.fd(), much.data(), much.size(), MSG_NOSIGNAL);
    return !connections.KeepsUp(opened->id);
  }));
  EXPECT_FALSE(connections.Allow(opened->id));
}

TEST(PodConnectionsTest, AConnectionThatHasEndedKeepsUpWithNothing) {
  PodConnections connections(100);
  const Pod pod;
  const auto opened = connections.Open("127.0.0.1", pod.port());
  ASSERT_TRUE(opened.ok()) << opened.status();
  pod.Accepted().Close();
  EXPECT_TRUE(Eventually([&] { return !connections.KeepsUp(opened->id); }));
  EXPECT_FALSE(connections.Allow(opened->id));
}

}  // namespace
}  // namespace lockstep::progress
