#include "operator/controller/stores.h"

#include "operator/controller/children/kueue.h"

namespace lockstep::controller {

const kube::AnyStore& StoreOf(const Stores& stores, const kube::Kind& kind) {
  if (kind == kube::kPodKind) return stores.pods;
  if (kind == kube::kServiceKind) return stores.services;
  if (kind == kWorkloadKind) return *stores.workloads;
  return *stores.pod_groups;
}

std::vector<const kube::AnyStore*> ChildStores(const Stores& stores) {
  std::vector<const kube::AnyStore*> children = {&stores.pods, &stores.services};
  if (stores.pod_groups != nullptr) children.push_back(stores.pod_groups);
  if (stores.workloads != nullptr) children.push_back(stores.workloads);
  return children;
}

}  // namespace lockstep::controller
