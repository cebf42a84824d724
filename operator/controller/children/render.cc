#include "operator/controller/children/render.h"

#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/children/gang.h"

namespace lockstep::controller {

std::vector<kube::Object> RenderObjects(const api::TrainingJob& job, const Addresses& addresses,
                                        const Settings& settings) {
  std::vector<kube::Object> objects = {BuildService(job)};
  if (GangSchedulerOf(settings) != GangScheduler::kNone) {
    objects.push_back(BuildPodGroup(job, settings));
  }
  const ClusterSpec cluster(job, addresses);
  for (const Replica& replica : AllReplicas(job)) {
    objects.push_back(BuildPod(cluster, settings, replica, job.status.attempt));
  }
  return objects;
}

}  // namespace lockstep::controller
