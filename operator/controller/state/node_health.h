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
  bool UpdateOutage(const kube::Cached<bool>* before, const kube::Cached<bool>* after);

  // Returns true if no node is ready, or if at least three nodes, and 55 % of all, are not. Then
  // the nodes have probably lost the API server rather than failed one by one, and few nodes are
  // left for their pods. Kubernetes' node lifecycle controller has the same thresholds, per zone,
  // and evicts no pods while one is exceeded.
  bool IsWideOutage() const;

 private:
  bool IsWideOutageLocked() const;

  mutable std::mutex mutex_;
  std::size_t ready_ = 0, not_ready_ = 0;  // guarded by mutex_
};

}  // namespace lockstep::controller
