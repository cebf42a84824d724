#include "operator/controller/children/host_network.h"

#include <algorithm>
#include <string>

#include "api/v1/strategy_traits.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/state/dialects.h"
#include "operator/controller/state/main_container.h"

namespace lockstep::controller {
namespace {

using kube::Object;

// The leader hosts the store of torchrun and the coordinator of JAX; one that trains alone leads
// its own group. All replicas of TensorFlow's but the Evaluator are servers. The others' ports are
// left free, so that several of them fit on a node.
bool ListensAtClusterPort(const api::TrainingJob& job, const Replica& replica) {
  const api::StrategyTraits traits = api::TraitsOf(job.spec);
  if (traits.trains_alone || replica == LeadingReplica(job)) return true;
  if (replica.role == api::Role::kEvaluator) return false;
  const Dialects dialects = DialectsOf(job, replica.role);
  return traits.has_parameter_servers || (dialects.tensorflow && !dialects.torch);
}

// Kubernetes refuses a pod that has a port of its node twice, also in different containers.
bool IsDeclared(const Object& containers, int port) {
  const auto is_it = [port](const Object& entry) {
    const std::string protocol = kube::TextMember(entry, "protocol");
    return kube::Member(entry, "containerPort") == Object(port) &&
           (protocol.empty() || protocol == "TCP");
  };
  return std::ranges::any_of(containers, [&is_it](const Object& container) {
    return std::ranges::any_of(kube::ListMember(container, "ports"), is_it);
  });
}

void DeclareClusterPort(int port, Object& spec) {
  Object* main = spec.contains("containers") ? MainContainerOf(spec.at("containers")) : nullptr;
  if (main == nullptr || !main->is_object() || IsDeclared(spec.at("containers"), port)) return;
  Object& ports = (*main)["ports"];
  if (ports.is_null()) ports = Object::array();
  if (!ports.is_array()) return;               // the API server rejects it
  ports.push_back({{"containerPort", port}});  // the template may have any name
}

}  // namespace

void AddHostNetwork(const api::TrainingJob& job, const Replica& replica, Object& spec) {
  if (kube::Member(spec, "hostNetwork") != Object(true)) return;
  Object& policy = spec["dnsPolicy"];
  if (policy.is_null()) policy = "ClusterFirstWithHostNet";
  if (ListensAtClusterPort(job, replica)) DeclareClusterPort(ClusterPort(job, replica.role), spec);
}

}  // namespace lockstep::controller
