// The kinds TrainingJob and Node. kube/object.h has pods, Services, Secrets and events.
#pragma once

#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

inline const kube::Kind kTrainingJobKind{"training.lockstep.dev", "v1", "TrainingJob",
                                         "trainingjobs"};

inline const kube::Kind kNodeKind{"", "v1", "Node", "nodes", /*namespaced=*/false};
// Returns true if the node's condition Ready is True; false if it is False, Unknown or absent.
bool IsReadyNode(const kube::Object& node);
// Returns the members of a Node that IsReadyNode reads, and those that identify it.
kube::FieldMask NodeFields();

}  // namespace lockstep::controller
