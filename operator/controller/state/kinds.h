// The kinds that only the controller uses, beside pods and Services.
#pragma once

#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

inline const kube::Kind kTrainingJobKind{"training.lockstep.dev", "v1", "TrainingJob",
                                         "trainingjobs"};

inline const kube::Kind kNodeKind{"", "v1", "Node", "nodes", /*namespaced=*/false};
// IsReadyNode reads a node's Ready condition; NodeFields lists the members of a Node that it reads.
bool IsReadyNode(const kube::Object& node);
kube::FieldMask NodeFields();

}  // namespace lockstep::controller
