// The caches that the reconciler decides from.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "operator/controller/state/node_health.h"
#include "operator/controller/state/observed.h"
#include "operator/kube/cache/store.h"

namespace lockstep::controller {

// How late Stores::nodes may learn of a change while nodes_are_current.
inline constexpr Duration kNodesSilence = std::chrono::seconds(90);

// Maintained by informers, which are made from the table in followed_kinds.h. Decisions read
// nothing else of the cluster.
struct Stores {
  const kube::Store<ObservedJob>* jobs = nullptr;                 // never null once set
  const kube::Store<std::optional<ObservedPod>>* pods = nullptr;  // likewise
  const kube::Store<std::monostate>* services = nullptr;      // likewise; only existence matters
  const kube::Store<ObservedPodGroup>* pod_groups = nullptr;  // null without a gang scheduler
  const kube::Store<ObservedWorkload>* workloads = nullptr;   // null without Kueue
  const kube::Store<bool>* nodes = nullptr;  // whether each node is ready; null if not watched
  const NodeHealth* node_health = nullptr;   // of `nodes`; null if these are
  // Returns whether `nodes` has every change that is older than kNodesSilence. Empty: always.
  std::function<bool()> nodes_are_current = {};

  struct Children {
    kube::Kind kind;
    const kube::AnyStore* store;
  };
  std::vector<Children> children = {};  // those of the above whose objects belong to jobs
};

// Returns the store of children of this kind. Requires: stores.children has it.
const kube::AnyStore& StoreOf(const Stores& stores, const kube::Kind& kind);

}  // namespace lockstep::controller
