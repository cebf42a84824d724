// Waits for what other threads bring about.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "tests/support/time_limit.h"

namespace lockstep::testing {

// Returns true once `holds` does, and false if it does not within 30 s (see Slowed).
inline bool Eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + Slowed(std::chrono::seconds(30));
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace lockstep::testing
