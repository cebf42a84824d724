#include "trainer/comm/gloo/packed_address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

namespace lockstep::train {
namespace {

// Returns an address in Gloo's format: `used` bytes of a sockaddr_storage, leftovers of Gloo's
// stack (here `garbage`), and the number that Gloo appends.
std::string AddressOf(sa_family_t family, std::size_t used, char garbage) {
  std::string address(136, garbage);
  for (std::size_t i = 0; i < used; ++i) address[i] = static_cast<char>(i + 1);
  address[0] = static_cast<char>(family);
  address[1] = 0;
  for (std::size_t i = 128; i < 136; ++i) address[i] = static_cast<char>(i);
  return address;
}

TEST(PackedAddressTest, KeepsTheBytesOfTheFamilyAndGloosNumber) {
  for (const auto& [family, used] : {std::pair{AF_INET, 8U}, {AF_INET6, 28U}}) {
    const auto address = AddressOf(static_cast<sa_family_t>(family), used, 0);
    const std::string packed = PackAddress(address);
    EXPECT_EQ(packed.size(), 36U);
    const auto unpacked = UnpackAddress(packed, address.size());
    ASSERT_TRUE(unpacked.ok()) << unpacked.status();
    EXPECT_EQ(*unpacked, address);
  }
}

TEST(PackedAddressTest, DropsLeftoversOfGloosStack) {
  EXPECT_EQ(PackAddress(AddressOf(AF_INET, 8, 'c')), PackAddress(AddressOf(AF_INET, 8, 0)));
  EXPECT_EQ(PackAddress(AddressOf(AF_INET6, 28, 'c')), PackAddress(AddressOf(AF_INET6, 28, 0)));
}

TEST(PackedAddressTest, RejectsOtherLengths) {
  const std::string packed = PackAddress(AddressOf(AF_INET, 8, 0));
  for (const std::string& bad : {std::string(), packed + "x", packed.substr(1)}) {
    EXPECT_EQ(UnpackAddress(bad, 136).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(UnpackAddress(packed, 100).ok());
  EXPECT_FALSE(UnpackAddress(packed, 128).ok());
}

}  // namespace
}  // namespace lockstep::train
