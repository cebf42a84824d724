// The whole operator over one client: informers, work queue, reconciler and worker threads.
// main.cc composes it over a RestClient, `lockstep run` over a MemoryClient.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "operator/controller/reconciler.h"
#include "operator/kube/backoff.h"
#include "operator/kube/cache/informer.h"
#include "operator/kube/runtime/controller.h"
#include "operator/kube/runtime/work_queue.h"

namespace lockstep::controller {

struct JobControllerOptions {
  std::vector<std::string> namespaces;         // that are served, each once; none: all
  int workers = 4;                             // threads that reconcile
  std::string instance = "lockstep-operator";  // reportingInstance of events
  kube::BackoffPolicy retry;                   // of failed reconciles
  kube::BackoffPolicy watch_retry{.initial = std::chrono::milliseconds(200)};
  Settings settings;
  // Of which jobs get their tokens; null: none has one. Outlives the controller.
  JobTokens* tokens = nullptr;
  kube::WorkQueueObserver* queue_observer = nullptr;  // may be null
  // Of each change of a job that is seen, on the watching thread; `before` is null for one that was
  // not known. May be empty.
  std::function<void(const api::TrainingJob* before, const api::TrainingJob& after)> on_job_change;
};

// For those who watch the controller at work.
struct JobControllerStats {
  struct Cache {
    kube::Kind kind;
    bool synced = false;  // in all namespaces
    std::size_t objects = 0;
    std::vector<kube::FeedState> feeds;  // each namespace's
  };
  std::vector<Cache> caches;
  kube::WorkQueueStats queue;
  std::int64_t reconciles = 0, failures = 0, stale_reads = 0;
};

// Lists and watches pods, services and, with a gang scheduler or Kueue, PodGroups and
// Workloads by the label api::kLabelJobUid (that it exists), and with Settings::watch_nodes all
// nodes, whatever the namespace. Pods carry status.podIP for progress to be asked for, and env with
// the field reference status.podIP (LOCKSTEP_POD_IP), which whoever runs the pods resolves.
class JobController {
 public:
  // Everything passed by reference outlives it.
  JobController(kube::Client& client, const Addresses& addresses, ProgressSource& progress,
                const Clock& clock, JobControllerOptions options = {});
  ~JobController();  // Stop()
  JobController(const JobController&) = delete;
  JobController& operator=(const JobController&) = delete;

  // Returns at once. Reconciles of a namespace begin when its caches have been filled (and those of
  // nodes): one that the API server does not let us into keeps no other waiting.
  void Start();
  // All caches have been filled, and the jobs in them queued.
  bool HasSynced() const;
  // Ends watches and waits for reconciles under way. Idempotent.
  void Stop();

  JobControllerStats Stats() const;
  const kube::Store<ObservedJob>& jobs() const { return jobs_.store(); }

 private:
  std::vector<kube::AnyInformer*> Informers();
  std::vector<const kube::AnyInformer*> Informers() const;
  // Null where they are not used.
  const kube::Store<kube::Object>* FollowPodGroups(kube::Client& client);
  const kube::Store<kube::Object>* FollowWorkloads(kube::Client& client);
  const kube::Store<bool>* FollowNodes(kube::Client& client);
  void AddJobsOn(const std::string& node);
  void SetHandlers();
  bool IsOpen(const std::string& namespace_name) const;
  void OpenNamespaces();
  void Enqueue(const kube::Key& key);

  const JobControllerOptions options_;
  kube::WorkQueue queue_;
  // By namespace that is served ("": all): its caches have been filled, and its jobs are worked on.
  std::map<std::string, std::atomic<bool>> open_;
  mutable std::mutex opening_;  // held from a namespace's opening until its jobs have been queued
  kube::Informer<ObservedJob> jobs_;
  kube::Informer<std::optional<ObservedPod>> pods_;
  kube::Informer<std::monostate> services_;
  std::optional<kube::Informer<kube::Object>> pod_groups_;  // where a gang scheduler is used
  std::optional<kube::Informer<kube::Object>> workloads_;   // where Kueue is
  std::optional<kube::Informer<bool>> nodes_;               // where they are watched
  kube::EventRecorder events_;
  Reconciler reconciler_;
  kube::Controller controller_;
};

}  // namespace lockstep::controller
