// Parses JSON that nobody vouches for.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace lockstep {

// Returns the value, or one of which is_discarded() is true if the text is no JSON or has objects
// and lists in more than `most_levels` levels: values are printed and compared by recursion. Takes
// a time that is linear in the length of the text. A callback of the parser that watches the depth
// would not: with one, the parser looks through the whole parent at each end of an object. Pure.
nlohmann::json ParseShallowJson(std::string_view text, int most_levels);

}  // namespace lockstep
