#include "operator/controller/job_controller.h"

#include <algorithm>
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
      pods_(client, kube::kPodKind, OptionsOf(TrimPod, true, PodFieldsNobodyReads())),
      services_(client, kube::kServiceKind,
                OptionsOf(TrimService, true, ServiceFieldsNobodyReads())),
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
  queue_.SetObserver(options_.queue_observer);
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

std::vector<const kube::Informer*> JobController::Informers() const {
  std::vector<const kube::Informer*> informers = {&jobs_, &pods_, &services_};
  if (pod_groups_) informers.push_back(pod_groups_.get());
  if (workloads_) informers.push_back(workloads_.get());
  return informers;
}

kube::InformerOptions JobController::OptionsOf(void (*trim)(kube::Object&), bool labelled,
                                               kube::FieldTree skip) const {
  return {.namespace_name = options_.namespace_name,
          .label_selector = labelled ? api::kLabelJobUid : "",
          .skip = std::move(skip),
          .transform = trim,
          .backoff = options_.watch_retry};
}

void JobController::EnqueueOnChange(kube::Informer& informer,
                                    kube::Key (*job_of)(const kube::Object&)) {
  const bool tell = &informer == &jobs_ && options_.on_job_change;
  const auto changed = [this, job_of, tell](const kube::Object* before, const kube::Object& after) {
    if (tell) options_.on_job_change(before, after);
    queue_.Add(job_of(after));
  };
  informer.SetHandlers(
      {.on_add = [changed](const kube::Object& object) { changed(nullptr, object); },
       .on_update = [changed](const kube::Object& before,
                              const kube::Object& after) { changed(&before, after); },
       .on_delete = [this, job_of](const kube::Object& last) { queue_.Add(job_of(last)); }});
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
  return std::ranges::all_of(Informers(), &kube::Informer::HasSynced);
}

JobControllerStats JobController::Stats() const {
  JobControllerStats stats;
  for (const kube::Informer* informer : Informers()) {
    stats.caches.push_back({informer->kind(), informer->HasSynced(), informer->store().size()});
  }
  stats.queue = queue_.Stats();
  stats.failures = controller_.failures();  // first: it never exceeds the reconciles
  stats.reconciles = controller_.reconciles();
  stats.stale_reads = reconciler_.stale_reads();
  return stats;
}

void JobController::Stop() {
  for (kube::Informer* informer : Informers()) informer->Stop();
  if (starter_.joinable()) starter_.join();
  controller_.Stop();
}

}  // namespace lockstep::controller
