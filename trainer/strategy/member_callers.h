// Decides which addresses the kernel lets connect to a group's ports.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

// By Kubernetes' network model, members connect from their pods' addresses. With address
// translation between pods, or several addresses on a host, they do not, and the filter silently
// drops their connections. So once a group has failed to connect for 20 s, any address is allowed.
// Not thread-safe.
class MemberCallers {
 public:
  // Much longer than the heartbeats take to detect a dead member.
  static constexpr Duration kPatience = std::chrono::seconds(20);

  // Returns the members' addresses. Returns an empty list, which allows any address, if a member's
  // address is unknown or invalid, if they are not of one family, or after a group failed to
  // connect. Logs the reason once.
  std::vector<std::string> Of(const Membership& membership);
  // Records whether the connections that used Of's last result were made, and how long that took,
  // without the wait for the members' addresses: a member that is late says nothing of the filter.
  // If they fail without the filter too, the filter was not the reason, and is used again.
  void Note(const absl::Status& connected, Duration took);

 private:
  bool are_trusted_ = true;
  bool is_filtered_ = false;  // Of's last result was not empty
  bool has_told_ = false;
};

}  // namespace lockstep::train
