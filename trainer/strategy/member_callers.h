// Which addresses the kernel lets connect to a group's ports.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

// Members connect from their pods' addresses: that is Kubernetes' network model. Where the way
// between them translates addresses, or a host has several, they do not, and connections are
// dropped without a word. So after a group that could not connect for twenty seconds anybody may.
// Not thread-safe.
class MemberCallers {
 public:
  // Long after a member that has died would have been missed.
  static constexpr Duration kPatience = std::chrono::seconds(20);

  // The members' addresses; empty, so that anybody may connect, if one of them is none, if they are
  // not of one family, or after a group that could not connect. Says why in the log, once.
  std::vector<std::string> Of(const Membership& membership);
  // Whether connections came about with what Of returned last. If they do not without the filter
  // either, the filter was not the reason, and is used again.
  void Note(const absl::Status& connected, Duration took);

 private:
  std::vector<std::string> last_;
  bool are_trusted_ = true, has_told_ = false;
};

}  // namespace lockstep::train
