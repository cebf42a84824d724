#include "trainer/comm/gloo/address_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

// As Gloo writes them: an address at full length with a port, and a number.
std::string AddressOf(int peer) {
  std::string address(136, '\0');
  address[0] = AF_INET;
  address[2] = static_cast<char>(40000 + peer);
  address[3] = static_cast<char>((40000 + peer) / 256);
  address[128] = static_cast<char>(peer);
  return address;
}

std::string Addresses(int count) {
  std::string addresses;
  for (int peer = 0; peer < count; ++peer) addresses += AddressOf(peer);
  return addresses;
}

TEST(AddressListTest, UnpacksWhatWasPacked) {
  for (const int count : {1, 2, 3, 500}) {
    const std::string addresses = Addresses(count);
    const auto unpacked = UnpackAddresses(PackAddresses(addresses, static_cast<std::size_t>(count)),
                                          static_cast<std::size_t>(count));
    ASSERT_TRUE(unpacked.ok()) << unpacked.status();
    EXPECT_EQ(*unpacked, addresses);
  }
  EXPECT_EQ(*UnpackAddresses(PackAddresses("", 3), 3), "");
  EXPECT_EQ(*UnpackAddresses(PackAddresses("=*.", 3), 3), "=*.");
}

TEST(AddressListTest, APeerCostsTheBytesThatVary) {
  EXPECT_EQ(PackAddresses(Addresses(500), 500).size(), 2 * 136 + 1 + 500 * 3);
}

TEST(AddressListTest, WhatIsOnGloosStackIsNotSent) {
  std::string v4 = AddressOf(1);
  for (std::size_t i = 8; i < 128; ++i) v4[i] = 'c';
  EXPECT_EQ(*UnpackAddresses(PackAddresses(v4, 1), 1), AddressOf(1));
  std::string v6 = v4;
  v6[0] = AF_INET6;
  const std::string unpacked = *UnpackAddresses(PackAddresses(v6, 1), 1);
  EXPECT_EQ(unpacked.substr(0, sizeof(sockaddr_in6)), v6.substr(0, sizeof(sockaddr_in6)));
  EXPECT_EQ(unpacked.substr(sizeof(sockaddr_in6), 100), std::string(100, '\0'));
  EXPECT_EQ(unpacked.substr(128), v6.substr(128));
}

TEST(AddressListTest, WhatIsNoListIsRefused) {
  const std::string packed = PackAddresses(Addresses(3), 3);
  const std::string endless = std::string(5000, '=') + "." + std::string(5000, 'x');
  for (const std::string& bad : {std::string(), std::string("x"), std::string("=="), packed + "x",
                                 packed.substr(0, packed.size() - 1), endless}) {
    const auto refused = UnpackAddresses(bad, 3);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << bad.size();
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("list of addresses"));
  }
  EXPECT_FALSE(UnpackAddresses(packed, 4).ok());
}

}  // namespace
}  // namespace lockstep::train
