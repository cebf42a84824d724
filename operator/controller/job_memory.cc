#include "operator/controller/job_memory.h"

namespace lockstep::controller {

kube::Store<kube::Object>::Ptr ChildOf(const kube::Store<kube::Object>& store,
                                       const ReconcileContext& context) {
  const auto owned = store.OwnedBy(context.memory.owner);
  return owned.empty() ? nullptr : owned.front();
}

}  // namespace lockstep::controller
