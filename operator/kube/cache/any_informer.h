// The interface of an informer, independent of what it caches.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// The state of an informer in one of its namespaces.
struct FeedState {
  std::string namespace_name;  // empty: all namespaces
  bool synced = false;
  absl::Status last_error;  // see Reflector::last_error
};

class AnyInformer {
 public:
  virtual ~AnyInformer() = default;
  virtual void Start() = 0;
  // Asks the informer's threads to stop and does not wait for them.
  virtual void RequestStop() = 0;
  // Calls RequestStop() and waits. Idempotent. No handler is called after it returns.
  virtual void Stop() = 0;
  // Sets the function that an informer thread calls when the first list of a namespace is in the
  // store and the change handler has seen it. Requires: Start() has not been called.
  virtual void SetSyncHandler(std::function<void()> on_sync) = 0;
  // True once all namespaces have synced.
  virtual bool HasSynced() const = 0;
  // True once this namespace has synced, or once one feed of all namespaces has.
  virtual bool HasSynced(const std::string& namespace_name) const = 0;
  virtual bool WaitForSync() = 0;  // blocks until HasSynced(); false if stopped first
  virtual std::vector<FeedState> Feeds() const = 0;
  // True if every namespace is current; see Reflector::IsCurrent.
  virtual bool IsCurrent(Duration limit) const = 0;
  virtual const Kind& kind() const = 0;
  virtual std::size_t size() const = 0;  // objects in the store
};

}  // namespace lockstep::kube
