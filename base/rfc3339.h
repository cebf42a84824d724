// Instants as API objects spell them: RFC 3339 in UTC, "2026-05-01T12:00:00Z".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace lockstep {

// Whole seconds have no fraction; others have as many digits as they need (up to nine).
std::string FormatRfc3339(Time time);

// Accepts a fraction of a second and any offset. Nothing if `text` is not RFC 3339 or names a day
// or a time of day that does not exist. Years 1970 to 2261, which is what Time can hold.
std::optional<Time> ParseRfc3339(std::string_view text);

}  // namespace lockstep
