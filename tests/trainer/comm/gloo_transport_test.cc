// Whom the ports of a group let in; fault_test.cc has Abort.
#include "trainer/comm/gloo/gloo_transport.h"

#include <gloo/transport/address.h>
#include <gloo/transport/pair.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>

#include <cstring>
#include <vector>

#include "tests/support/stranger.h"

namespace lockstep::train {
namespace {

using lockstep::testing::Stranger;

int PortOf(gloo::transport::Pair& pair) {
  const std::vector<char> bytes = pair.address().bytes();  // begins with a sockaddr
  sockaddr_in address{};
  std::memcpy(&address, bytes.data(), sizeof address);
  return ntohs(address.sin_port);
}

// More members than one filter could hold addresses of.
TEST(GlooTransportTest, APortIsOnlyForThePeerThatItWasMadeFor) {
  constexpr int kRanks = 1500;
  std::vector<std::string> callers(kRanks, "192.0.2.7");
  callers[1] = "127.0.0.8";
  callers[2] = "127.0.0.9";
  AbortableDevice device("127.0.0.1", callers, std::chrono::seconds(1));
  const auto context = device.createContext(0, kRanks);
  const int port = PortOf(*context->createPair(1));
  Stranger peer(port, "127.0.0.8"), other_member(port, "127.0.0.9");
  EXPECT_TRUE(peer.IsLetIn());
  EXPECT_FALSE(other_member.IsLetIn());
  Stranger at_its_own_port(PortOf(*context->createPair(2)), "127.0.0.9");
  EXPECT_TRUE(at_its_own_port.IsLetIn());
}

}  // namespace
}  // namespace lockstep::train
