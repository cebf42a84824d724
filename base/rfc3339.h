// Times as in API objects: RFC 3339 in UTC, "2026-05-01T12:00:00Z".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace lockstep {

// Formats whole seconds without a fraction, others with as many digits as they need (up to nine).
std::string FormatRfc3339(Time time);

// Parses a time with an optional fraction and any offset. Returns nullopt if `text` is not RFC
// 3339, names a day or a time of day that does not exist, or has a year outside 1970 to 2261 (a
// Time ends in 2262).
std::optional<Time> ParseRfc3339(std::string_view text);

}  // namespace lockstep
