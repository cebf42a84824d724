// The part of an object's metadata that a write of its status must repeat.
//
// The API server takes only the status from such a write. Labels, annotations and the like that the
// write omits stay in the object, but lose their owner in managedFields, so that a later
// server-side apply without them would not remove them.
#pragma once

#include <optional>
#include <string>

#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns labels, annotations, owner references and finalizers. Includes kubectl's last-applied
// annotation: its owner tells `kubectl apply --server-side` whose fields to take over.
kube::Object OwnedMetadata(kube::Object metadata);

// Returns an object's OwnedMetadata as JSON; nullopt if it is over 4 KiB, since a tenant decides
// its size and one is held for each object.
std::optional<std::string> HeldMetadata(const kube::Object& object);

}  // namespace lockstep::controller
