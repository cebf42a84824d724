// How many of the cluster's nodes are ready, kept beside the store of nodes. Thread-safe.
#pragma once

#include <cstddef>
#include <mutex>

#include "operator/kube/cache/store.h"

namespace lockstep::controller {

class NodeHealth {
 public:
  // A change of the store of nodes, whose values say whether a node is ready; see
  // Informer::OnChange. Returns true if a wide outage begins or ends with it.
  bool Note(const kube::Cached<bool>* before, const kube::Cached<bool>* after);

  // Returns true if no node is ready, or if at least three and 55 % of all are not. Then it is more
  // likely that the nodes cannot reach the API server than that each is lost, and there is hardly a
  // node for what ran on them. Kubernetes' node lifecycle controller draws the same lines, for each
  // zone, and evicts nobody beyond them.
  bool IsWideOutage() const;

 private:
  bool IsWideOutageLocked() const;

  mutable std::mutex mutex_;
  std::size_t ready_ = 0, not_ready_ = 0;  // guarded by mutex_
};

}  // namespace lockstep::controller
