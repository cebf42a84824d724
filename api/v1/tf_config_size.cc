#include "api/v1/tf_config_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "api/v1/containers.h"
#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/strategy_traits.h"

namespace lockstep::api {

std::size_t TfConfigSize(const TrainingJob& job, Role reader) {
  const bool is_sparse = job.spec.elastic && TraitsOf(job.spec).has_parameter_servers &&
                         (reader == Role::kWorker || reader == Role::kParameterServer);
  std::size_t size = 0;
  for (const auto& [role, replicas] : job.spec.replica_specs) {
    if (is_sparse && role != Role::kParameterServer) continue;
    const std::string longest = fmt::format("\"{}-{}-{}.{}.{}.svc:65535\",", job.metadata.name,
                                            RoleName(role), std::max(replicas.replicas - 1, 0),
                                            job.metadata.name, job.metadata.namespace_name);
    size += static_cast<std::size_t>(std::max(replicas.replicas, 0)) * longest.size();
  }
  return size;
}

bool NeedsTfConfig(const TrainingJob& job, Role role) {
  if (UsesBundledTrainer(job)) return true;
  return std::ranges::any_of(ContainersOf(job.spec, role), [](const Json& container) {
    return container.is_object() && container.contains("name") &&
           container.at("name") == kTensorFlowContainer;
  });
}

}  // namespace lockstep::api
