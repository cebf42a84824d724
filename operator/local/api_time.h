// RFC 3339 in whole seconds, UTC: metav1.Time.
#pragma once

#include <string>

#include "api/base/clock.h"

namespace lockstep::local {

std::string FormatApiTime(Time time);

}  // namespace lockstep::local
