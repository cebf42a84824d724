// "Did you mean …?" for unknown names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Returns the known name nearest to `name`, ignoring case; empty if none is near.
std::string_view NearestName(std::string_view name, std::span<const std::string_view> known);

// Returns `did you mean "epochs"?` if a known name is near, else `expected one of a, b, c`.
std::string SuggestName(std::string_view name, std::span<const std::string_view> known);

}  // namespace lockstep
