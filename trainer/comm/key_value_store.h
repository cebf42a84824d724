// What a communicator needs to find its peers: a store shared by the members of one generation.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/base/clock.h"
#include "api/base/status.h"

namespace lockstep::train {

// Thread-safe.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there; DeadlineExceeded names the key, Cancelled if the generation
  // ended.
  virtual absl::StatusOr<std::string> Get(const std::string& key, Duration timeout) = 0;
  // The values of all keys, in their order, once they are there; errors as of Get. What is far away
  // answers for many keys at once: each of n members asks for n values.
  virtual absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                          Duration timeout) {
    const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
    std::vector<std::string> values;
    for (const std::string& key : keys) {
      const Duration left = deadline - std::chrono::steady_clock::now();
      LOCKSTEP_ASSIGN_OR_RETURN(std::string value, Get(key, std::max(left, Duration::zero())));
      values.push_back(std::move(value));
    }
    return values;
  }
};

}  // namespace lockstep::train
