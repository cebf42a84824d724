// The caches that a reconciler decides from.
#pragma once

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "operator/controller/state/observed.h"
#include "operator/kube/cache/store.h"

namespace lockstep::controller {

// Informers keep these; decisions read nothing else of the cluster.
struct Stores {
  const kube::Store<ObservedJob>& jobs;
  const kube::Store<std::optional<ObservedPod>>& pods;
  const kube::Store<std::monostate>& services;            // that there is one is enough
  const kube::Store<kube::Object>* pod_groups = nullptr;  // where a gang scheduler is used
  const kube::Store<kube::Object>* workloads = nullptr;   // where Kueue is
  const kube::Store<bool>* nodes = nullptr;  // whether each is ready; where they are watched
  // Whether what `nodes` says is so now. Empty: always.
  std::function<bool()> nodes_are_current = {};
};

// The store of a child's kind: pods, Services, PodGroups or Workloads.
const kube::AnyStore& StoreOf(const Stores& stores, const kube::Kind& kind);
// Those that there are of these four.
std::vector<const kube::AnyStore*> ChildStores(const Stores& stores);

}  // namespace lockstep::controller
