// Which hosts have an address, looked up in the background. A pod's name has one from the moment
// that the pod does until it is deleted: whoever has none cannot come.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"

namespace lockstep::train {

// Asks the resolver. Takes as long as it does: seconds, where there is no answer.
bool HasAddress(const std::string& host);

// Thread-safe.
class AddressWatch {
 public:
  using Lookup = std::function<bool(const std::string& host)>;

  explicit AddressWatch(Lookup lookup = &HasAddress, Duration every = std::chrono::seconds(2));

  // In the place of those watched before. Nothing is looked up while there are none.
  void Watch(std::set<std::string> hosts);
  // Of those watched; one that has not been looked up yet is not among them.
  std::set<std::string> WithoutAddress() const;

 private:
  void Run(const std::stop_token& stop);

  const Lookup lookup_;
  const Duration every_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> hosts_, without_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::train
