#include "operator/controller/cluster_spec.h"

#include <nlohmann/json.hpp>

namespace lockstep::controller {
namespace {

using OrderedJson = nlohmann::ordered_json;

bool IsSparse(const api::TrainingJob& job, api::Role role) {
  return job.spec.elastic && api::HasStrategy(job.spec, api::StrategyType::kParameterServer) &&
         (role == api::Role::kWorker || role == api::Role::kParameterServer);
}

OrderedJson AddressList(const api::TrainingJob& job, const Addresses& addresses, api::Role role) {
  OrderedJson list = OrderedJson::array();
  for (int index = 0; index < ReplicaCount(job, role); ++index) {
    list.push_back(addresses.Of(job, role, index).HostPort());
  }
  return list;
}

OrderedJson SparseCluster(const api::TrainingJob& job, const Addresses& addresses,
                          const Replica& replica) {
  OrderedJson cluster = OrderedJson::object();
  cluster["ps"] = AddressList(job, addresses, api::Role::kParameterServer);
  cluster["worker"] = OrderedJson::object();
  if (replica.role == api::Role::kWorker) {
    cluster["worker"][std::to_string(replica.index)] =
        addresses.Of(job, replica.role, replica.index).HostPort();
  }
  return cluster;
}

OrderedJson FullCluster(const api::TrainingJob& job, const Addresses& addresses,
                        const Replica& replica) {
  OrderedJson cluster = OrderedJson::object();
  for (const api::Role role : {api::Role::kChief, api::Role::kParameterServer, api::Role::kWorker,
                               api::Role::kEvaluator}) {
    if (role == api::Role::kEvaluator && replica.role != api::Role::kEvaluator) continue;
    if (ReplicaCount(job, role) == 0) continue;
    cluster[std::string(api::RoleName(role))] = AddressList(job, addresses, role);
  }
  return cluster;
}

}  // namespace

std::string TfConfig(const api::TrainingJob& job, const Addresses& addresses,
                     const Replica& replica) {
  OrderedJson config;
  config["cluster"] = IsSparse(job, replica.role) ? SparseCluster(job, addresses, replica)
                                                  : FullCluster(job, addresses, replica);
  config["task"]["type"] = api::RoleName(replica.role);
  config["task"]["index"] = replica.index;
  config["environment"] = "cloud";
  return config.dump();
}

}  // namespace lockstep::controller
