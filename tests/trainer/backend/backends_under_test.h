// The back ends that every op test runs on, each against "reference". A new back end is added here.
#pragma once

#include <string>
#include <vector>

namespace lockstep::train {

inline const std::vector<std::string> kBackendsUnderTest = {"reference", "cpu"};

}  // namespace lockstep::train
