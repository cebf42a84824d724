// "Did you mean …?" for names that are not known.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep::api {

// The known name nearest to `name` (case ignored), empty if none is near.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> known);

// `did you mean "epochs"?` if a known name is near, else `expected one of a, b, c`.
std::string SuggestName(std::string_view name, std::span<const std::string_view> known);

}  // namespace lockstep::api
