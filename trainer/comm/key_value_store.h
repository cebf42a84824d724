// What a communicator needs to find its peers: a store shared by the members of one generation.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/base/clock.h"

namespace lockstep::train {

// Thread-safe.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there; DeadlineExceeded names the key, Cancelled if the generation
  // ended.
  virtual absl::StatusOr<std::string> Get(const std::string& key, Duration timeout) = 0;
};

}  // namespace lockstep::train
