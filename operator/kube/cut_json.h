// Takes out of a JSON text what its reader would only throw away, before the costly part of
// reading.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

// The text with 0 in place of metadata.managedFields, at any depth, and of arrays that are members
// named in `unneeded`; empty if there is nothing to take out. What is no JSON stays no JSON, except
// for faults inside of what is taken out. Brackets in there count for `deepest`: text that nests
// deeper is left as it is.
std::string CutJson(std::string_view text, const std::vector<std::string>& unneeded,
                    std::size_t deepest);

}  // namespace lockstep::kube
