// Formats times as in API objects: metav1.Time, which has no fractions of a second.
#pragma once

#include <chrono>
#include <string>

#include "base/rfc3339.h"

namespace lockstep::local {

inline std::string FormatApiTime(Time time) {
  return FormatRfc3339(std::chrono::floor<std::chrono::seconds>(time));
}

}  // namespace lockstep::local
