// A group's store that leaks the ranks' ports to a stranger.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/stranger.h"
#include "trainer/comm/key_value_store.h"

namespace lockstep::train {

// As soon as a rank has published its ports, a stranger connects to each of them and sends what
// Gloo reads as a message for a buffer that does not exist.
class StrangersStore final : public KeyValueStore {
 public:
  StrangersStore(KeyValueStore& store, int ranks) : store_(store), ranks_(ranks) {}
  absl::Status Set(const std::string& key, const std::string& value) override {
    const bool has_ports = key.find_first_not_of("0123456789", 5) == std::string::npos;
    if (key.starts_with("gloo/") && has_ports) Visit(value);
    return store_.Set(key, value);
  }
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions& options) override {
    return store_.GetAll(keys, options);
  }
  std::size_t visits = 0;  // read it after all ranks are done

 private:
  void Visit(std::string_view addresses) {
    const std::array<std::uint64_t, 6> message = {48, 1, 7, 0, 64, 0};
    const std::size_t length = addresses.size() / static_cast<std::size_t>(ranks_);
    for (std::size_t at = 0; at < addresses.size(); at += length) {
      sockaddr_in to{};
      std::memcpy(&to, addresses.data() + at, sizeof to);
      if (to.sin_port == 0) continue;  // the rank's own entry
      const std::lock_guard lock(mutex_);
      strangers_.emplace_back(ntohs(to.sin_port), "127.0.0.2")
          .Send(std::as_bytes(std::span(message)));
      ++visits;
    }
  }

  KeyValueStore& store_;
  const int ranks_;
  std::mutex mutex_;
  std::vector<lockstep::testing::Stranger> strangers_;  // guarded by mutex_
};

}  // namespace lockstep::train
