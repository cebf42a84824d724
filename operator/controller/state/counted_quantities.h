// Quantities in one form. Pure.
#pragma once

#include "operator/kube/object.h"

namespace lockstep::controller {

// Returns a map of quantities with each as FormatQuantity writes it, so that 1000m and 1 are equal.
// What is no quantity, or no map, stays as it is.
kube::Object CountedQuantities(const kube::Object& quantities);

}  // namespace lockstep::controller
