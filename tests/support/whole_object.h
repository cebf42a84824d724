#pragma once

#include "operator/kube/object.h"

namespace lockstep::kube {

// A reader for informers that keeps the whole object.
inline Object WholeObject(Object object) {
  return object;
}

}  // namespace lockstep::kube
