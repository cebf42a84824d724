// Looks up in the background which hosts have an address. A pod's DNS name has one from when the
// pod gets its IP until it is deleted, so a member without an address cannot join yet.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"

namespace lockstep::train {

// Returns false if the resolver says that `host` has no address. Returns true if the lookup fails
// for another reason. Blocks for seconds if the resolver does not answer.
bool HasAddress(const std::string& host);

// Returns the addresses of `host`, which may be one itself, in one form of each. Returns none if it
// has none or the lookup fails. Blocks as HasAddress does.
std::set<std::string> AddressesOf(const std::string& host);

// Thread-safe.
class AddressWatch {
 public:
  using Lookup = std::function<bool(const std::string& host)>;

  explicit AddressWatch(Lookup lookup = &HasAddress, Duration every = std::chrono::seconds(2));

  // Replaces the watched hosts. Without hosts, the thread makes no lookups.
  void Watch(std::set<std::string> hosts);
  // Returns the watched hosts known to have no address. Hosts not yet looked up are not included.
  std::set<std::string> WithoutAddress() const;

 private:
  void Run(const std::stop_token& stop);

  const Lookup lookup_;
  const Duration every_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> hosts_, without_;
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
