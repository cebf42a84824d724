#include "trainer/comm/gloo/packed_address.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "base/check.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kWhole = sizeof(sockaddr_storage);
constexpr std::size_t kKept = sizeof(sockaddr_in6);  // the longer of both families

// The bytes that the address's family needs; kKept for families other than IPv4.
std::size_t UsedBytes(std::string_view address) {
  sa_family_t family = AF_UNSPEC;
  std::memcpy(&family, address.data(), sizeof family);
  return family == AF_INET ? offsetof(sockaddr_in, sin_zero) : kKept;
}

}  // namespace

std::string PackAddress(std::string_view address) {
  LOCKSTEP_CHECK(address.size() >= kWhole,
                 "gloo: found an address of {} bytes, expected {} or more", address.size(), kWhole);
  std::string packed(address.substr(0, UsedBytes(address)));
  packed.resize(kKept);
  return packed.append(address.substr(kWhole));
}

absl::StatusOr<std::string> UnpackAddress(std::string_view packed, std::size_t length) {
  if (length < kWhole || packed.size() != kKept + length - kWhole) {
    return absl::InvalidArgumentError(
        fmt::format("gloo: found a packed address of {} bytes, expected that of one of {}",
                    packed.size(), length));
  }
  std::string address(packed.substr(0, kKept));
  address.resize(kWhole);
  return address.append(packed.substr(kKept));
}

}  // namespace lockstep::train
