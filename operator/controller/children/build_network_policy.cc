#include "operator/controller/children/build_network_policy.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

using kube::Object;

// The API server sets this label on every namespace, with the namespace's name.
constexpr char kNamespaceLabel[] = "kubernetes.io/metadata.name";

void LetNamespaceIn(const std::string& name, int port, Object& ingress) {
  if (name.empty()) return;
  const Object peer = {{"namespaceSelector", {{"matchLabels", {{kNamespaceLabel, name}}}}}};
  const Object on = {{"protocol", "TCP"}, {"port", port}};
  ingress.push_back({{"from", Object::array({peer})}, {"ports", Object::array({on})}});
}

}  // namespace

std::string NetworkPolicyName(const api::TrainingJob& job) {
  return fmt::format("{}-{}", job.metadata.name, job.metadata.uid);
}

void NoteNetworkPolicy(const api::TrainingJob& job, Object& pod) {
  pod.at("metadata")["annotations"][api::kAnnotationNetworkPolicy] = NetworkPolicyName(job);
}

Object BuildNetworkPolicy(const api::TrainingJob& job, const Settings& settings) {
  const Object pods = {{"matchLabels", {{api::kLabelJobUid, job.metadata.uid}}}};
  const Object peers = {{"podSelector", pods}};
  Object ingress = Object::array();
  ingress.push_back({{"from", Object::array({peers})}});
  if (api::UsesBundledTrainer(job)) {  // others are not polled
    std::set<int> polled = {ClusterPort(job, LeadingReplica(job).role)};
    if (api::HasEvaluator(job.spec)) polled.insert(ClusterPort(job, api::Role::kEvaluator));
    for (const int port : polled) LetNamespaceIn(settings.operator_namespace, port, ingress);
  }
  LetNamespaceIn(settings.scraper_namespace, api::kMetricsPort, ingress);
  return {{"apiVersion", kNetworkPolicyKind.ApiVersion()},
          {"kind", kNetworkPolicyKind.kind},
          {"metadata", ChildMetadata(job, NetworkPolicyName(job))},
          {"spec",
           {{"podSelector", pods},
            {"policyTypes", Object::array({"Ingress"})},
            {"ingress", std::move(ingress)}}}};
}

}  // namespace lockstep::controller
