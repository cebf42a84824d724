// What of an object's metadata a write of its status has to repeat.
//
// The API server takes nothing but the status from such a write. Labels, annotations and the like
// that it leaves out stay in the object, but no longer count as those of whoever applied them
// (managedFields), so that a later server-side apply without them would not remove them.
#pragma once

#include <optional>
#include <string>

#include "operator/kube/object.h"

namespace lockstep::controller {

// Labels, annotations, owner references and finalizers. Also kubectl's copy of the whole object: by
// who owns that annotation `kubectl apply --server-side` tells whose fields it takes over.
kube::Object OwnedMetadata(kube::Object metadata);

// OwnedMetadata of an object as JSON, or nothing above 4 KiB: a tenant decides how large it is, and
// it would be held for each object.
std::optional<std::string> HeldMetadata(const kube::Object& object);

}  // namespace lockstep::controller
