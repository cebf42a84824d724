#include "operator/controller/children/cluster_spec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/v1/strategy_traits.h"

namespace lockstep::controller {
namespace {

using OrderedJson = nlohmann::ordered_json;

bool IsSparse(const api::TrainingJob& job, api::Role role) {
  return job.spec.elastic && api::TraitsOf(job.spec).has_parameter_servers &&
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

OrderedJson WholeCluster(const api::TrainingJob& job, const Addresses& addresses,
                         bool with_evaluators) {
  OrderedJson cluster = OrderedJson::object();
  for (const api::Role role : {api::Role::kChief, api::Role::kParameterServer, api::Role::kWorker,
                               api::Role::kEvaluator}) {
    if (role == api::Role::kEvaluator && !with_evaluators) continue;
    if (ReplicaCount(job, role) == 0) continue;
    cluster[std::string(api::RoleName(role))] = AddressList(job, addresses, role);
  }
  return cluster;
}

}  // namespace

ClusterSpec::ClusterSpec(const api::TrainingJob& job, const Addresses& addresses)
    : job_(job), addresses_(addresses) {}

const std::string& ClusterSpec::FullCluster(bool with_evaluators) const {
  Text& text = with_evaluators ? evaluators_ : trainers_;
  std::call_once(text.written, [this, with_evaluators, &text] {
    text.json = WholeCluster(job_, addresses_, with_evaluators).dump();
  });
  return text.json;
}

std::string ClusterSpec::TfConfig(const Replica& replica) const {
  const std::string cluster = IsSparse(job_, replica.role)
                                  ? SparseCluster(job_, addresses_, replica).dump()
                                  : FullCluster(replica.role == api::Role::kEvaluator);
  return fmt::format(R"({{"cluster":{},"task":{{"type":"{}","index":{}}},"environment":"cloud"}})",
                     cluster, api::RoleName(replica.role), replica.index);
}

}  // namespace lockstep::controller
