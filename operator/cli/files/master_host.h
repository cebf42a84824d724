// The host name by which programs reach the Master of a Kubeflow job. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "operator/kube/object.h"

namespace lockstep::cli {

// `spec` is that of the TrainingJob that `job` becomes. If `job` has a Master, which is a Chief
// there, replaces NAME-master-0 by NAME-chief-0 in the commands, arguments and variables of its
// containers: as a whole host name, not in a longer name or a path. Returns whether it found it.
bool RenameMasterHost(const kube::Object& job, nlohmann::ordered_json& spec);

}  // namespace lockstep::cli
