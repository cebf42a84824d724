#include "trainer/comm/gloo/address_list.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "api/base/check.h"

namespace lockstep::train {
namespace {

// A sockaddr_storage and a number have 136. Bounds what a wrong list can make of a few bytes.
constexpr std::size_t kLongestAddress = 1024;

// The packed list: one character for each byte of an address, then the first address, then the
// bytes of each that vary.
constexpr char kSame = '=', kVaries = '*', kEnd = '.';

// How much of a sockaddr_storage its family needs.
std::size_t UsedBytes(std::string_view address) {
  sa_family_t family = AF_UNSPEC;
  std::memcpy(&family, address.data(), sizeof family);
  if (family == AF_INET) return offsetof(sockaddr_in, sin_zero);
  return family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_storage);
}

std::string WithoutPadding(std::string_view list, std::size_t length) {
  std::string addresses(list);
  if (length < sizeof(sockaddr_storage)) return addresses;
  for (std::size_t at = 0; at < addresses.size(); at += length) {
    const std::size_t used = UsedBytes(list.substr(at, length));
    std::fill_n(addresses.begin() + static_cast<std::ptrdiff_t>(at + used),
                sizeof(sockaddr_storage) - used, '\0');
  }
  return addresses;
}

}  // namespace

std::string PackAddresses(std::string_view list, std::size_t count) {
  LOCKSTEP_CHECK(count > 0 && list.size() % count == 0,
                 "gloo: found {} bytes of addresses, expected {} of one length", list.size(),
                 count);
  const std::size_t length = list.size() / count;
  const std::string addresses = WithoutPadding(list, length);
  std::string packed(length, kSame);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] != addresses[i % length]) packed[i % length] = kVaries;
  }
  const std::string pattern = packed;
  packed.append(1, kEnd).append(addresses, 0, length);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (pattern[i % length] == kVaries) packed.push_back(addresses[i]);
  }
  return packed;
}

absl::StatusOr<std::string> UnpackAddresses(std::string_view packed, std::size_t count) {
  const std::size_t length = packed.find_first_not_of("=*");
  if (length > kLongestAddress || packed[length] != kEnd) {
    return absl::InvalidArgumentError(
        "gloo: a list of addresses does not say which of their bytes vary");
  }
  const std::string_view pattern = packed.substr(0, length);
  std::vector<std::size_t> varying;
  for (std::size_t i = 0; i < length; ++i) {
    if (pattern[i] == kVaries) varying.push_back(i);
  }
  const std::size_t expected = 2 * length + 1 + count * varying.size();
  if (packed.size() != expected) {
    return absl::InvalidArgumentError(
        fmt::format("gloo: found a list of addresses of {} bytes, expected {} for {}",
                    packed.size(), expected, count));
  }
  const std::string_view first = packed.substr(length + 1, length);
  std::string_view rest = packed.substr(2 * length + 1);
  std::string addresses;
  addresses.reserve(length * count);
  for (std::size_t peer = 0; peer < count; ++peer) {
    std::string address(first);
    for (const std::size_t i : varying) {
      address[i] = rest.front();
      rest.remove_prefix(1);
    }
    addresses += address;
  }
  return addresses;
}

}  // namespace lockstep::train
