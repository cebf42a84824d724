// Times as in API objects: RFC 3339 in UTC, "2026-05-01T12:00:00Z".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace lockstep {

// Formats whole seconds without a fraction, others with as many digits as they need (up to nine).
std::string FormatRfc3339(Time time);

// Formats with exactly `digits` digits of the fraction, 0 to 9; the others are cut off.
std::string FormatRfc3339(Time time, int digits);

// Formats metav1.Time, which has whole seconds, and metav1.MicroTime, which always has six digits.
inline std::string FormatApiTime(Time time) {
  return FormatRfc3339(time, 0);
}
inline std::string FormatApiMicroTime(Time time) {
  return FormatRfc3339(time, 6);
}

// Parses a time with an optional fraction and any offset. Returns nullopt if `text` is not RFC
// 3339, names a day or a time of day that does not exist, or has a year outside 1970 to 2261 (a
// Time ends in 2262).
std::optional<Time> ParseRfc3339(std::string_view text);

// Parses a time of expiry: Time::max() for years after 2261 and for the first second of year 1,
// Go's zero, which both mean never; the epoch for others before 1970; nullopt for what is not RFC
// 3339 or names a day or a time of day that does not exist.
std::optional<Time> ParseExpiry(std::string_view text);

}  // namespace lockstep
