// Quantities in one form. Pure.
#pragma once

#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns `quantities`, a map, with each quantity rewritten by FormatQuantity, so that 1000m and 1
// compare equal. A value that is not a finite quantity of 0 or more is unchanged, and so is an
// argument that is not a map.
kube::Object CountedQuantities(const kube::Object& quantities);

}  // namespace lockstep::controller
