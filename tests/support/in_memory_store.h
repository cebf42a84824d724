// A KeyValueStore for ranks that are threads of one process.
#pragma once

#include <fmt/format.h>

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "tests/support/get_each.h"
#include "trainer/comm/key_value_store.h"

namespace lockstep::train {

class InMemoryStore final : public KeyValueStore {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    if (ended_) return absl::CancelledError("store: the generation has ended");
    values_[key] = value;
    changed_.notify_all();
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions& options) override {
    auto values = GetEach(keys, options, [this](const std::string& key, Duration timeout) {
      return GetOne(key, timeout);
    });
    const std::lock_guard lock(mutex_);
    ++calls_;
    if (values.ok()) {
      for (const std::string& value : *values) bytes_read_ += value.size();
    }
    return values;
  }
  absl::StatusOr<std::string> GetOne(const std::string& key, Duration timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return ended_ || values_.count(key) > 0; });
    if (ended_) return absl::CancelledError("store: the generation has ended");
    const auto found = values_.find(key);
    if (found == values_.end())
      return absl::DeadlineExceededError(fmt::format("store: no key '{}' in time", key));
    return found->second;
  }

  std::size_t calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  std::size_t bytes_read() {
    const std::lock_guard lock(mutex_);
    return bytes_read_;
  }
  // Ends the generation: all waits end with Cancelled.
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool ended_ = false;
  std::size_t calls_ = 0, bytes_read_ = 0;  // by GetAll
};

}  // namespace lockstep::train
