// Implements GetAll for test stores: gets the keys one by one.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "trainer/comm/key_value_store.h"

namespace lockstep::train {

// `get` waits for one key, up to a timeout.
template <typename Get>
absl::StatusOr<std::vector<std::string>> GetEach(const std::vector<std::string>& keys,
                                                 const KeyValueStore::GetOptions& options,
                                                 Get&& get) {
  constexpr Duration kLongestCall = std::chrono::milliseconds(100);
  const SteadyTime deadline = std::chrono::steady_clock::now() + options.timeout;
  std::vector<std::string> values;
  while (values.size() < keys.size()) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    absl::StatusOr<std::string> value =
        get(keys[values.size()], std::clamp(left, Duration::zero(), kLongestCall));
    if (value.ok()) {
      values.push_back(options.size == 0 ? *std::move(value)
                                         : value->substr(options.offset, options.size));
      continue;
    }
    if (!absl::IsDeadlineExceeded(value.status())) return value.status();
    if (options.stop.stop_requested()) return absl::CancelledError("asked to stop");
    if (left <= kLongestCall) return value.status();
  }
  return values;
}

}  // namespace lockstep::train
