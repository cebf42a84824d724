// Formats metav1.MicroTime: RFC 3339 in UTC, always with six fractional digits.
#pragma once

#include <string>

#include "base/clock.h"

namespace lockstep::kube {

std::string MicroTime(Time time);

}  // namespace lockstep::kube
