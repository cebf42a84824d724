// A group's store that leaks the ranks' ports to a stranger.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/listener.h"
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
      Socket stranger(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      sockaddr_in from{};
      from.sin_family = AF_INET;
      ::inet_pton(AF_INET, "127.0.0.2", &from.sin_addr);
      ASSERT_EQ(::bind(stranger.fd(), reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
      ::connect(stranger.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
      ::send(stranger.fd(), message.data(), sizeof message, MSG_NOSIGNAL);
      const std::lock_guard lock(mutex_);
      strangers_.push_back(std::move(stranger));
      ++visits;
    }
  }

  KeyValueStore& store_;
  const int ranks_;
  std::mutex mutex_;
  std::vector<Socket> strangers_;  // guarded by mutex_
};

}  // namespace lockstep::train
