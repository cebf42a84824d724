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
  last_.clear();
  if (!are_trusted_) return last_;
  if (AreOfFamily(AF_INET, membership) || AreOfFamily(AF_INET6, membership)) {
    for (const Member& member : membership.members) last_.push_back(member.address);
  } else if (!has_told_) {
    has_told_ = true;
    LogInfo("not every member has said its pod's IP address: any address can connect to the group");
  }
  return last_;
}

void MemberCallers::Note(const absl::Status& connected, Duration took) {
  if (connected.ok() || took < kPatience) return;
  const bool were_filtered = !last_.empty();
  are_trusted_ = !were_filtered;
  if (!were_filtered) return;
  LogWarning(
      "the group could not connect; from now on any address can, since members may not come "
      "from their pods' addresses (LOCKSTEP_POD_IP)",
      {{"reason", std::string(connected.message())},
       {"seconds", std::chrono::duration<double>(took).count()}});
}

}  // namespace lockstep::train
