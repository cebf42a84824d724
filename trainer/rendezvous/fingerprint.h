// What all members of a group must have in common, as text: facts of any form without ';', each
// followed by one. For example "trainSamples=60000;testSamples=10000;".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::train {

// A fact of each side; "nothing" where a side has no more facts. At most 200 bytes each.
struct FingerprintDifference {
  std::string own, other;
};

// Returns the first place at which the two fingerprints have different facts, or nullopt if they
// are equal.
std::optional<FingerprintDifference> FirstDifference(std::string_view own, std::string_view other);

}  // namespace lockstep::train
