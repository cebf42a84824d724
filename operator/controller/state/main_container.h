// The main container: its exit is the pod's outcome.
#pragma once

#include <string>
#include <string_view>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// Returns true for one of api::kMainContainerNames. A container with such a name is found wherever
// it is in the list.
bool IsMainContainerName(std::string_view name);

// Returns the container with a name of api::kMainContainerNames, else the first; null if
// `containers` is not a list or is empty. `containers` is a pod spec's list.
const api::Json* MainContainerOf(const api::Json& containers);
api::Json* MainContainerOf(api::Json& containers);

// The same for a pod template ({"spec": {"containers": […]}}), which may be partial.
const api::Json* FindMainContainer(const api::Json& pod_template);

// Returns the image that the template's main container names; empty if it names none.
std::string FindMainImage(const api::Json& pod_template);

// Returns the main container's name of an existing Pod: the one that the operator noted, since a
// mutating webhook may have inserted a container before the main one. Pods of older operators have
// no note, so MainContainerOf decides. Empty if the pod has no containers.
std::string MainContainerName(const api::Json& pod);

}  // namespace lockstep::controller
