#include "operator/controller/state/kinds.h"

#include "operator/kube/cache/store.h"

namespace lockstep::controller {

bool IsReadyNode(const kube::Object& node) {
  return kube::IsTrueCondition(kube::ConditionOf(kube::Member(node, "status"), "Ready"));
}

kube::FieldMask NodeFields() {
  kube::FieldMask fields = kube::IdentityFields();
  fields.Add("status.conditions.type");
  fields.Add("status.conditions.status");
  return fields;
}

}  // namespace lockstep::controller
