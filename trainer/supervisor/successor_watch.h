// Notices that a later pod has got the leading pod's name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/descriptor.h"
#include "trainer/rendezvous/address_watch.h"

namespace lockstep::train {

// What a name has resolved to, over time. Pure. Not thread-safe.
class NameHistory {
 public:
  // `own`: this pod's address.
  NameHistory(std::string own, Duration after) : own_(std::move(own)), after_(after) {}
  // Takes what the name resolves to now; nothing if it has no address or the resolver did not
  // answer. Returns true if the name, which was this pod's, has had other addresses only for
  // `after`.
  bool UpdateSuccessor(const std::set<std::string>& addresses, SteadyTime now);

 private:
  const std::string own_;
  const Duration after_;
  bool was_own_ = false;
  std::optional<SteadyTime> others_since_;
};

struct SuccessorWatchOptions {
  // Returns a host's addresses, all in one form; see AddressesOf.
  std::function<std::set<std::string>(const std::string& host)> addresses_of = &AddressesOf;
  Duration every = std::chrono::seconds(15);  // each leading pod of a cluster asks the same servers
  // Longer than DNS caches usually keep what is old.
  Duration after = std::chrono::seconds(30);
};

// If the API server gives up a leading pod that still runs (because its node's kubelet has died,
// say), the pod is not notified. Its group would continue, and its successor would wait for members
// that never come. The name is looked up on a separate thread, which may outlive this object:
// nothing can interrupt a lookup, and while DNS is down one takes 10 s.
class SuccessorWatch {
 public:
  // `host` is the pod's name, `own` its address.
  SuccessorWatch(std::string host, const std::string& own, Pipe pipe,
                 const SuccessorWatchOptions& options);
  ~SuccessorWatch();
  SuccessorWatch(const SuccessorWatch&) = delete;
  SuccessorWatch& operator=(const SuccessorWatch&) = delete;
  // A descriptor that becomes, and stays, readable once a later pod has the name.
  int fd() const { return changed_.fd(); }

 private:
  struct Search;
  static void Run(Search& search);

  const Descriptor changed_;  // the pipe's read end; the search has the other
  const std::shared_ptr<Search> search_;
};

}  // namespace lockstep::train
