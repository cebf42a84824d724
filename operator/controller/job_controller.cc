#include "operator/controller/job_controller.h"

#include <utility>

#include "api/v1/names.h"
#include "operator/controller/gang.h"
#include "operator/controller/observe_job.h"

namespace lockstep::controller {
namespace {

constexpr char kReporter[] = "training.lockstep.dev/operator";

kube::Key JobOfChild(const kube::Object& child) {
  return {kube::Namespace(child), kube::Label(child, api::kLabelJobName)};
}

}  // namespace

JobController::JobController(kube::Client& client, const Addresses& addresses,
                             ProgressSource& progress, const Clock& clock,
                             JobControllerOptions options)
    : options_(std::move(options)),
      queue_(clock, options_.retry),
      jobs_(client, kTrainingJobKind, OptionsOf(TrimJob, false)),
      pods_(client, kube::kPodKind, OptionsOf(TrimPod, true)),
      services_(client, kube::kServiceKind, OptionsOf(TrimService, true)),
      pod_groups_(GangSchedulerOf(options_.settings) == GangScheduler::kNone
                      ? nullptr
                      : std::make_unique<kube::Informer>(client, PodGroupKind(options_.settings),
                                                         OptionsOf(TrimPodGroup, true))),
      workloads_(options_.settings.kueue ? std::make_unique<kube::Informer>(
                                               client, kWorkloadKind, OptionsOf(TrimWorkload, true))
                                         : nullptr),
      events_(client, clock, kReporter, options_.instance),
      reconciler_(client,
                  {jobs_.store(), pods_.store(), services_.store(),
                   pod_groups_ ? &pod_groups_->store() : nullptr,
                   workloads_ ? &workloads_->store() : nullptr},
                  addresses, progress, events_, clock, options_.settings),
      controller_("trainingjob", queue_,
                  [this](const kube::Key& key) { return reconciler_.Reconcile(key); }) {
  for (kube::Informer* informer : Informers()) {
    EnqueueOnChange(*informer, informer == &jobs_ ? kube::KeyOf : JobOfChild);
  }
}

JobController::~JobController() {
  Stop();
}

std::vector<kube::Informer*> JobController::Informers() {
  std::vector<kube::Informer*> informers = {&jobs_, &pods_, &services_};
  if (pod_groups_) informers.push_back(pod_groups_.get());
  if (workloads_) informers.push_back(workloads_.get());
  return informers;
}

kube::InformerOptions JobController::OptionsOf(void (*trim)(kube::Object&), bool labelled) const {
  return {.namespace_name = options_.namespace_name,
          .label_selector = labelled ? api::kLabelJobUid : "",
          .page_size = 500,
          .transform = trim,
          .backoff = options_.watch_retry};
}

void JobController::EnqueueOnChange(kube::Informer& informer,
                                    kube::Key (*job_of)(const kube::Object&)) {
  const auto enqueue = [this, job_of](const kube::Object& object) { queue_.Add(job_of(object)); };
  informer.SetHandlers(
      {.on_add = enqueue,
       .on_update = [enqueue](const kube::Object&, const kube::Object& after) { enqueue(after); },
       .on_delete = enqueue});
}

void JobController::Start() {
  for (kube::Informer* informer : Informers()) informer->Start();
  starter_ = std::jthread([this] {
    for (kube::Informer* informer : Informers()) {
      if (!informer->WaitForSync()) return;  // stopped
    }
    controller_.Start(options_.workers);
  });
}

bool JobController::HasSynced() const {
  return jobs_.HasSynced() && pods_.HasSynced() && services_.HasSynced() &&
         (!pod_groups_ || pod_groups_->HasSynced()) && (!workloads_ || workloads_->HasSynced());
}

void JobController::Stop() {
  for (kube::Informer* informer : Informers()) informer->Stop();
  if (starter_.joinable()) starter_.join();
  controller_.Stop();
}

}  // namespace lockstep::controller
