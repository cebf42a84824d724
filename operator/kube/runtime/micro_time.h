// metav1.MicroTime: RFC 3339 in UTC with six digits of a second, always.
#pragma once

#include <string>

#include "base/clock.h"

namespace lockstep::kube {

std::string MicroTime(Time time);

}  // namespace lockstep::kube
