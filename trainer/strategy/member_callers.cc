#include "trainer/strategy/member_callers.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "base/log.h"

namespace lockstep::train {
namespace {

bool AreOfFamily(int family, const Membership& membership) {
  return std::ranges::all_of(membership.members, [family](const Member& member) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    return ::inet_pton(family, member.address.c_str(), bytes.data()) == 1;
  });
}

}  // namespace

std::vector<std::string> MemberCallers::Of(const Membership& membership) {
  const bool are_known = AreOfFamily(AF_INET, membership) || AreOfFamily(AF_INET6, membership);
  if (!are_known && !has_told_) {
    has_told_ = true;
    LogInfo("not every member has said its pod's IP address: any address can connect to the group");
  }
  is_filtered_ = are_known;
  std::vector<std::string> addresses;
  if (!is_filtered_) return addresses;
  for (const Member& member : membership.members) addresses.push_back(member.address);
  return addresses;
}

void MemberCallers::Record(const absl::Status& connected, Duration took) {
  if (connected.ok() || took < patience_ || !is_filtered_) return;
  are_trusted_ = false;
  LogWarning(
      "the group could not connect; from now on any address can, since members may not come "
      "from their pods' addresses (LOCKSTEP_POD_IP)",
      {{"reason", std::string(connected.message())},
       {"seconds", std::chrono::duration<double>(took).count()}});
}

}  // namespace lockstep::train
