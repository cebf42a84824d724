// A part of another store, so that several groups can be formed by one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/comm/key_value_store.h"

namespace lockstep::train {

// Errors are those of `store`, which outlives this; they name keys with the prefix.
class PrefixedStore final : public KeyValueStore {
 public:
  PrefixedStore(KeyValueStore& store, std::string prefix)
      : store_(store), prefix_(std::move(prefix)) {}
  absl::Status Set(const std::string& key, const std::string& value) override {
    return store_.Set(prefix_ + key, value);
  }
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions& options) override {
    std::vector<std::string> prefixed;
    prefixed.reserve(keys.size());
    for (const std::string& key : keys) prefixed.push_back(prefix_ + key);
    return store_.GetAll(prefixed, options);
  }

 private:
  KeyValueStore& store_;
  const std::string prefix_;
};

}  // namespace lockstep::train
