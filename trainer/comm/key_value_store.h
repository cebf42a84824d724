// A store shared by the members of one generation, by which communicators find their peers.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/status.h"

namespace lockstep::train {

// Thread-safe.
class KeyValueStore {
 public:
  struct GetOptions {
    Duration timeout{};                // for the whole call
    std::stop_token stop = {};         // ends the call early
    std::size_t offset = 0, size = 0;  // which bytes of each value; size 0: all of it
  };

  virtual ~KeyValueStore() = default;
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Blocks until all keys are set, then returns their values in the order of the keys. Takes many
  // keys at once because each of n members needs a value of every other. DeadlineExceeded names the
  // keys. Cancelled: the generation ended or `stop` was requested.
  virtual absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                          const GetOptions& options) = 0;

  absl::StatusOr<std::string> Get(const std::string& key, Duration timeout) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<std::string> values, GetAll({key}, {.timeout = timeout}));
    return std::move(values.front());
  }
};

}  // namespace lockstep::train
