// The whole operator on top of one client: informers, work queue, reconciler and worker threads.
// The operator runs it with a RestClient (operator/server/run_operator.cc), `lockstep run` with a
// MemoryClient (operator/cli/local/local_run.cc).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "operator/controller/followed_kinds.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/state/node_health.h"
#include "operator/kube/backoff.h"
#include "operator/kube/cache/informer.h"
#include "operator/kube/runtime/controller.h"
#include "operator/kube/runtime/work_queue.h"

namespace lockstep::controller {

struct JobControllerOptions {
  std::vector<std::string> namespaces;  // namespaces to serve, without duplicates; empty: all
  int workers = 4;                      // threads that reconcile
  std::string instance = "lockstep-operator";  // reportingInstance of events
  kube::BackoffPolicy retry;                   // of failed reconciles
  kube::BackoffPolicy watch_retry{.initial = std::chrono::milliseconds(200)};
  Settings settings;
  // Derives the jobs' tokens; null if jobs have none. Outlives the controller.
  JobTokens* tokens = nullptr;
  // What programs report; null if they cannot. Outlives the controller.
  ProgressReports* reports = nullptr;
  kube::WorkQueueObserver* queue_observer = nullptr;  // may be null
  // Called on the watching thread for each change of a job that no other controller runs; `before`
  // is null for a job that was not known. May be empty.
  std::function<void(const api::TrainingJob* before, const api::TrainingJob& after)> on_job_change;
};

// A snapshot for metrics and health checks, which costs the same however many jobs there are:
// anybody may ask for a probe's page.
struct JobControllerStats {
  struct Cache {
    kube::Kind kind;
    bool synced = false;  // in all namespaces, of which none is denied now
    std::size_t objects = 0;
    std::vector<kube::FeedState> feeds;  // one per namespace
  };
  std::vector<Cache> caches;
  kube::WorkQueueStats queue;
  std::int64_t successes = 0, failures = 0, stale_reads = 0;
  std::int64_t grown = 0, shrunk = 0;  // see Reconciler
};

// Lists and watches the kinds of followed_kinds.h. Progress is polled at status.podIP. Pods get the
// environment variable LOCKSTEP_POD_IP as a field reference to status.podIP, which whatever runs
// the pods must resolve.
class JobController final : ChangeHandlers {
 public:
  // Everything passed by reference must outlive the controller.
  JobController(kube::Client& client, const Addresses& addresses, ProgressSource& progress,
                const Clock& clock, JobControllerOptions options = {});
  ~JobController();  // calls Stop()
  JobController(const JobController&) = delete;
  JobController& operator=(const JobController&) = delete;

  // Returns at once. A namespace's jobs are reconciled once its caches (and those of nodes) have
  // synced, so a namespace that the API server denies us delays no other.
  void Start();
  // Returns true once all caches have synced and their jobs are queued.
  bool HasSynced() const;
  // Ends the watches and waits for running reconciles. Idempotent.
  void Stop();

  // Returns true from when the namespace's caches have synced until Stop() is called; false if it
  // is not served.
  bool IsOpen(const std::string& namespace_name) const;

  // Has the job reconciled within Settings::status_interval, because something is known of it that
  // no cache tells, or `at_once`; one whose reconciles fail, when it is tried again.
  void Look(const kube::Key& key, bool at_once);

  JobControllerStats Stats() const;
  // See Reconciler. A copy for each job, made while no job can be looked at: not for a probe.
  std::map<kube::Key, JobSigns> Signs() const { return reconciler_.signs(); }
  const kube::Store<ObservedJob>& jobs() const { return *stores_.jobs; }

 private:
  // Adds an informer of each followed kind to informers_. Returns their stores.
  Stores Follow(kube::Client& client);
  void JobChanged(const kube::Cached<ObservedJob>* before,
                  const kube::Cached<ObservedJob>* after) override;
  void ChildChanged(const kube::Identity* before, const kube::Identity* after) override;
  void PodChanged(const kube::Cached<std::optional<ObservedPod>>* before,
                  const kube::Cached<std::optional<ObservedPod>>* after) override;
  void NodeChanged(const kube::Cached<bool>* before, const kube::Cached<bool>* after) override;
  // In these three, `hold`: for how long the job's other changes may be waited for.
  void ReportChange(const kube::Identity* before, const kube::Identity* after, Duration hold);
  void EnqueueOwner(const kube::Identity& child, Duration hold = Duration::zero());
  bool IsReady(const std::string& node) const;
  bool NodesAreCurrent() const;
  void AddJobsOn(const std::function<bool(const std::string& node)>& affects);
  void OpenNamespaces();
  void Enqueue(const kube::Key& key, Duration hold = Duration::zero());

  const JobControllerOptions options_;
  kube::WorkQueue queue_;
  // By served namespace ("": all): true once its caches have synced and its jobs are reconciled.
  std::map<std::string, std::atomic<bool>> open_;
  std::atomic<bool> is_stopping_{false};
  mutable std::mutex opening_;  // held from opening a namespace until its jobs are queued
  NodeHealth node_health_;
  std::vector<std::unique_ptr<kube::AnyInformer>> informers_;
  const Stores stores_;  // of informers_
  kube::EventRecorder events_;
  Reconciler reconciler_;
  kube::Controller controller_;
};

}  // namespace lockstep::controller
