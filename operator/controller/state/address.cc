#include "operator/controller/state/address.h"

#include <fmt/format.h>

namespace lockstep::controller {

std::string Address::HostPort() const {
  return fmt::format("{}:{}", host, port);
}

std::string PodName(const api::TrainingJob& job, api::Role role, int index) {
  return fmt::format("{}-{}-{}", job.metadata.name, api::RoleName(role), index);
}

}  // namespace lockstep::controller
