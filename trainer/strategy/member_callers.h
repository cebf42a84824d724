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
// drops their connections. So a process whose group has failed to connect for a while joins without
// its address from then on, and a group with such a member filters nothing. Since all members see
// the same addresses, all of them filter or none does. Not thread-safe.
class MemberCallers {
 public:
  // `patience`: see CollectiveOptions::address_patience.
  explicit MemberCallers(Duration patience) : patience_(patience) {}

  // Returns the members' addresses. Returns an empty list, which allows any address, if a member's
  // address is unknown or invalid, or if they are not of one family. Logs the reason once.
  std::vector<std::string> Of(const Membership& membership);
  // Records whether the connections that used Of's last result were made, and how long that took,
  // without the wait for the members' addresses: a late member proves nothing about the filter.
  void Record(const absl::Status& connected, Duration took);
  // False once a group has failed to connect although it knew its members' addresses. Never true
  // again: if each process changed back by itself, old and new ones might never agree.
  bool AreTrusted() const { return are_trusted_; }

 private:
  const Duration patience_;
  bool are_trusted_ = true;
  bool is_filtered_ = false;  // Of's last result was not empty
  bool has_told_ = false;
};

}  // namespace lockstep::train
