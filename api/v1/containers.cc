#include "api/v1/containers.h"

namespace lockstep::api {

const Json& ContainersOf(const TrainingJobSpec& spec, Role role) {
  static const Json none = Json::array();
  static const Json::json_pointer containers("/spec/containers");
  const auto replicas = spec.replica_specs.find(role);
  if (replicas == spec.replica_specs.end()) return none;
  const Json& pod = *replicas->second.tmpl;
  if (!pod.contains(containers) || !pod.at(containers).is_array()) return none;
  return pod.at(containers);
}

}  // namespace lockstep::api
