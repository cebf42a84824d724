// Whom the ports of a group let in, and what becomes of a pair whose peer misbehaves; fault_test.cc
// has Abort.
#include "trainer/comm/gloo/gloo_transport.h"

#include <gloo/common/error.h>
#include <gloo/transport/address.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>
#include <gmock/gmock.h>
#include <netinet/in.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/signal_fd.h"
#include "tests/support/stranger.h"
#include "tests/support/time_limit.h"

namespace lockstep::train {
namespace {

using lockstep::testing::Slowed;
using lockstep::testing::Stranger;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

int PortOf(gloo::transport::Pair& pair) {
  const std::vector<char> bytes = pair.address().bytes();  // begins with a sockaddr
  sockaddr_in address{};
  std::memcpy(&address, bytes.data(), sizeof address);
  return ntohs(address.sin_port);
}

// The side with the lower port waits for the other one.
void AwaitConnection(gloo::transport::Pair& pair) {
  std::vector<char> bytes = pair.address().bytes();
  sockaddr_in highest{};
  std::memcpy(&highest, bytes.data(), sizeof highest);
  highest.sin_port = 0xffff;
  std::memcpy(bytes.data(), &highest, sizeof highest);
  pair.connect(bytes);
}

// What a rank hears that connects to the peer and waits for its word; empty if it gets the word.
std::string FailureWith(int peer, gloo::transport::Context& context) {
  std::uint64_t word = 0;
  const auto buffer = context.createUnboundBuffer(&word, sizeof word);
  try {
    AwaitConnection(*context.getPair(peer));
    buffer->recv(peer, /*slot=*/1, 0, sizeof word);
    int from = -1;
    buffer->waitRecv(&from, std::chrono::duration_cast<std::chrono::milliseconds>(Slowed(20s)));
    return "";
  } catch (const gloo::IoException& error) {
    return error.what();
  }
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

// As that of a peer whose group has ended. Of so many, some are reset before they are accepted.
TEST(GlooTransportTest, AConnectionThatIsResetAtOnceEndsOnlyItsPair) {
  IgnoreBrokenPipes();
  constexpr int kRanks = 100;
  AbortableDevice device("127.0.0.1", {}, 20s);
  const auto context = device.createContext(0, kRanks);
  for (int peer = 1; peer < kRanks; ++peer) {
    Stranger caller(PortOf(*context->createPair(peer)), "127.0.0.1");
    ASSERT_TRUE(caller.IsLetIn());
    caller.Reset();
  }
  for (int peer = 1; peer < kRanks; ++peer) {
    // The latter if the kernel has told of the reset when this rank sent something.
    EXPECT_THAT(FailureWith(peer, *context),
                AnyOf(HasSubstr("Connection reset by peer"), HasSubstr("closed by peer")));
  }
}

TEST(GlooTransportTest, AMalformedMessageEndsOnlyItsPair) {
  IgnoreBrokenPipes();
  AbortableDevice device("127.0.0.1", {}, 20s);
  const auto context = device.createContext(0, 2);
  Stranger caller(PortOf(*context->createPair(1)), "127.0.0.1");
  ASSERT_TRUE(caller.IsLetIn());
  // A message's size, kind (for a buffer), slot, offset, length and offset there.
  const std::uint64_t for_no_buffer[] = {56, 1, 0x5107, 0, 8, 0};
  caller.Send(std::as_bytes(std::span(for_no_buffer)));
  EXPECT_THAT(FailureWith(1, *context), HasSubstr("localPendingRecv_"));
}

TEST(GlooTransportTest, AConnectionIsAwaitedAsLongAsItIsAllowedToTake) {
  constexpr std::chrono::milliseconds kTimeout = 1s;
  AbortableDevice device("127.0.0.1", {}, kTimeout);
  const auto context = device.createContext(0, 2);
  const auto& pair = context->createPair(1);
  const SteadyTime start = std::chrono::steady_clock::now();
  EXPECT_THROW(AwaitConnection(*pair), gloo::IoException);
  const Duration waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, kTimeout);
  EXPECT_LT(waited, 4 * kTimeout);
}

}  // namespace
}  // namespace lockstep::train
