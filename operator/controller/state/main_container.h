// The container whose exit is the pod's outcome.
#pragma once

#include <string>
#include <string_view>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// One of api::kMainContainerNames: who is called so is found whatever is put beside it.
bool IsMainContainerName(std::string_view name);

// Of `containers`, the one with a name of api::kMainContainerNames, else the first; null if there
// is none. `containers` is a pod spec's list.
const api::Json* MainContainerOf(const api::Json& containers);

// The same of a pod template ({"spec": {"containers": […]}}) that may be partial.
const api::Json* FindMainContainer(const api::Json& pod_template);

// Of a Pod that is there: the name that the operator has noted, since a mutating webhook may have
// put a container before the main one. Pods of older operators have no note, and a pod without
// containers has no name.
std::string MainContainerName(const api::Json& pod);

}  // namespace lockstep::controller
