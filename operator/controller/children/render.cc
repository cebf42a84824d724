#include "operator/controller/children/render.h"

#include "base/check.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/children/gang.h"

namespace lockstep::controller {

void RenderObjects(const api::TrainingJob& job, const Addresses& addresses,
                   const Settings& settings,
                   const std::function<void(const kube::Object& object)>& take) {
  take(BuildService(job));
  if (GangSchedulerOf(settings) != GangScheduler::kNone) take(BuildPodGroup(job, settings));
  const ClusterSpec cluster(job, addresses);
  for (const Replica& replica : AllReplicas(job)) {
    take(BuildPod(cluster, settings, replica, job.status.attempt));
  }
}

std::vector<kube::Object> FirstPods(const api::TrainingJob& job, const Addresses& addresses) {
  const ClusterSpec cluster(job, addresses);
  std::vector<kube::Object> pods;
  for (const Replica& replica : AllReplicas(job)) {
    if (replica.index == 0) pods.push_back(BuildPod(cluster, {}, replica, job.status.attempt));
  }
  return pods;
}

const kube::Object& LeadingPod(const std::vector<kube::Object>& first_pods) {
  LOCKSTEP_CHECK(!first_pods.empty(), "leading pod: found no pods, expected one that trains");
  return first_pods.front();
}

}  // namespace lockstep::controller
