#include "operator/controller/children/build_service.h"

#include "api/v1/names.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

kube::Object OwnerReferenceTo(const api::TrainingJob& job) {
  // No blockOwnerDeletion: it requires permission on finalizers, and background deletion does not
  // need it.
  return {{"apiVersion", api::kApiVersion},
          {"kind", api::kKind},
          {"name", job.metadata.name},
          {"uid", job.metadata.uid},
          {"controller", true}};
}

}  // namespace

kube::Object ChildMetadata(const api::TrainingJob& job, const std::string& name) {
  return {
      {"name", name},
      {"namespace", job.metadata.namespace_name},
      {"labels", {{api::kLabelJobName, job.metadata.name}, {api::kLabelJobUid, job.metadata.uid}}},
      {"ownerReferences", kube::Object::array({OwnerReferenceTo(job)})}};
}

kube::Object BuildService(const api::TrainingJob& job) {
  const int port = ClusterPort(job, LeadingReplica(job).role);
  return {{"apiVersion", kube::kServiceKind.ApiVersion()},
          {"kind", kube::kServiceKind.kind},
          {"metadata", ChildMetadata(job, job.metadata.name)},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", {{api::kLabelJobUid, job.metadata.uid}}},
            {"ports", kube::Object::array({{{"name", "cluster"}, {"port", port}}})}}}};
}

}  // namespace lockstep::controller
