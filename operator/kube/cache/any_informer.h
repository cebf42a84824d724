// What can be asked of an informer whatever it keeps.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// How far an informer is with one of its namespaces.
struct FeedState {
  std::string namespace_name;  // empty: all
  bool synced = false;
  absl::Status last_error;  // Ok if the latest list or watch went well
};

class AnyInformer {
 public:
  virtual ~AnyInformer() = default;
  virtual void Start() = 0;
  // Tells the informer's threads to end, and does not wait for them.
  virtual void RequestStop() = 0;
  // RequestStop(), then waits. Idempotent; after it, no handler is called.
  virtual void Stop() = 0;
  // Called on an informer's thread whenever the first list of a namespace is in the store and the
  // handler of changes has been told of it. Set before Start.
  virtual void SetSyncHandler(std::function<void()> on_sync) = 0;
  // True once that is so of all namespaces.
  virtual bool HasSynced() const = 0;
  // Of the namespace, or of all if the informer follows all at once.
  virtual bool HasSynced(const std::string& namespace_name) const = 0;
  virtual bool WaitForSync() = 0;  // blocks until HasSynced(); false if stopped before
  virtual std::vector<FeedState> Feeds() const = 0;
  // Of all namespaces; see Reflector.
  virtual bool IsCurrent(Duration limit) const = 0;
  virtual const Kind& kind() const = 0;
  virtual std::size_t size() const = 0;  // of the store
};

}  // namespace lockstep::kube
