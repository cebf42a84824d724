#include "operator/controller/children/addresses.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/v1/names.h"
#include "operator/controller/state/main_container.h"

namespace lockstep::controller {

DnsAddresses::DnsAddresses(std::string domain) : domain_(std::move(domain)) {}

Address DnsAddresses::Of(const api::TrainingJob& job, api::Role role, int index) const {
  std::string host = fmt::format("{}.{}.{}.svc", PodName(job, role, index), job.metadata.name,
                                 job.metadata.namespace_name);
  if (!domain_.empty()) host += "." + domain_;
  return {std::move(host), ClusterPort(job, role)};
}

int ClusterPort(const api::TrainingJob& job, api::Role role) {
  const auto spec = job.spec.replica_specs.find(role);
  if (spec == job.spec.replica_specs.end()) return api::kClusterPort;
  const api::Json* main = FindMainContainer(*spec->second.tmpl);
  if (main == nullptr || !main->contains("ports") || !main->at("ports").is_array()) {
    return api::kClusterPort;
  }
  for (const api::Json& port : main->at("ports")) {
    if (!port.is_object() || !port.contains("name") || !port.contains("containerPort")) continue;
    const bool named = std::ranges::any_of(api::kClusterPortNames, [&port](std::string_view name) {
      return port.at("name") == api::Json(name);
    });
    if (named && port.at("containerPort").is_number_integer()) {
      return port.at("containerPort").get<int>();
    }
  }
  return api::kClusterPort;
}

}  // namespace lockstep::controller
