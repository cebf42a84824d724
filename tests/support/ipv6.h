// Whether this machine has IPv6 on loopback: containers often do not.
#pragma once

#include "base/listener.h"

namespace lockstep::testing {

inline bool HasIpv6() {
  return ListenAt("[::1]:0", 1).ok();
}

}  // namespace lockstep::testing
