#include "trainer/rendezvous/gate/dialled_host.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(DialledHostTest, IsTheAddressInThePeersName) {
  EXPECT_EQ(HostOfPeer("ipv4:10.0.0.5:2222"), "10.0.0.5");
  EXPECT_EQ(HostOfPeer("ipv6:%5Bfd00::5%5D:2222"), "fd00::5");
  EXPECT_EQ(HostOfPeer("ipv6:[fd00:0::5]:2222"), "fd00::5");
  EXPECT_EQ(HostOfPeer("ipv6:%5Bfe80::1%252%5D:2222"), "fe80::1");
  EXPECT_EQ(HostOfPeer("ipv6:%5B::ffff:10.0.0.5%5D:2222"), "10.0.0.5");
  for (const char* other : {"", "unix:/tmp/10.0.0.5:1", "fd:7", "ipv4:", "ipv4:worker-0:2222"}) {
    EXPECT_EQ(HostOfPeer(other), "") << other;
  }
}

TEST(DialledHostTest, MeansTheServerThatListensThere) {
  EXPECT_TRUE(IsMeant("10.0.0.5", "10.0.0.5:2222"));
  EXPECT_TRUE(IsMeant("fd00::5", "[FD00:0::5]:2222"));
  EXPECT_TRUE(IsMeant("fe80::1", "[fe80::1%eth0]:2222"));
  EXPECT_FALSE(IsMeant("10.0.0.6", "10.0.0.5:2222"));
  EXPECT_FALSE(IsMeant("10.0.0.50", "10.0.0.5:2222"));
  EXPECT_FALSE(IsMeant("10.0.0.5", "[fd00::5]:2222"));
}

TEST(DialledHostTest, IsNotAskedForWhereThereIsNoneToCompare) {
  EXPECT_TRUE(IsMeant("", "10.0.0.5:2222"));
  for (const char* all : {":2222", "0.0.0.0:2222", "[::]:2222", "localhost:2222"}) {
    EXPECT_TRUE(IsMeant("10.0.0.5", all)) << all;
  }
}

}  // namespace
}  // namespace lockstep::train
