// The back ends that every op test runs on, each against "reference". A new back end is added here.
#pragma once

#include <string>
#include <vector>

#include "tests/support/cuda_sim/use_simulator.h"

namespace lockstep::train {

inline const std::vector<std::string> kBackendsUnderTest = {"reference", "cpu", "async-reference",
                                                            "cuda"};

// A back end's name as a part of a test's name: without the hyphen.
inline std::string TestName(std::string backend) {
  std::erase(backend, '-');
  return backend;
}

}  // namespace lockstep::train
