// Makes the world match one TrainingJob: observe (caches, clock) -> MakePlan (pure) -> apply.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/controller/children/cluster_spec.h"
#include "operator/controller/job_tokens.h"
#include "operator/controller/parallel.h"
#include "operator/controller/rules/plan.h"
#include "operator/controller/rules/seen_workers.h"
#include "operator/controller/state/observed.h"
#include "operator/controller/state/progress_source.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/client.h"
#include "operator/kube/rest/request_limiter.h"
#include "operator/kube/runtime/event_recorder.h"

namespace lockstep::controller {

inline const kube::Kind kNodeKind{"", "v1", "Node", "nodes", /*namespaced=*/false};
// A node's condition Ready, and the members of a Node that it reads.
bool IsReadyNode(const kube::Object& node);
kube::FieldTree NodeFields();

inline const kube::Kind kTrainingJobKind{"training.lockstep.dev", "v1", "TrainingJob",
                                         "trainingjobs"};

// Informers keep these; decisions read nothing else of the cluster.
struct Stores {
  const kube::Store<ObservedJob>& jobs;
  const kube::Store<std::optional<ObservedPod>>& pods;
  const kube::Store<std::monostate>& services;            // that there is one is enough
  const kube::Store<kube::Object>* pod_groups = nullptr;  // where a gang scheduler is used
  const kube::Store<kube::Object>* workloads = nullptr;   // where Kueue is
  const kube::Store<bool>* nodes = nullptr;  // whether each is ready; where they are watched
  // Whether what `nodes` says is so now. Empty: always.
  std::function<bool()> nodes_are_current = {};
};

// What a reconciler works with. All of it outlives the reconciler.
struct Collaborators {
  kube::Client& client;
  const Addresses& addresses;
  ProgressSource& progress;
  kube::EventRecorder& events;
  const Clock& clock;
  JobTokens* tokens = nullptr;  // Settings::job_tokens needs them
};

// Thread-safe for different keys; kube::WorkQueue never hands out one key twice at a time. The
// stores outlive it.
class Reconciler {
 public:
  Reconciler(const Collaborators& with, const Stores& stores, Settings settings = {});

  // An error: back off and try again. A duration: come back then. Nothing: wait for a change.
  // Writes nothing before the caches have seen what earlier calls wrote.
  absl::StatusOr<std::optional<Duration>> Reconcile(const kube::Key& key);
  // Calls that were put off because the caches lagged behind our own writes.
  std::int64_t stale_reads() const { return stale_reads_; }

 private:
  // A write of ours: the store sees it when it has the object, or a later version of anything: it
  // may be gone again.
  struct Creation {
    const kube::AnyStore* store = nullptr;
    std::string version;
  };
  // Another owner's object that has a wanted name.
  struct Conflict {
    kube::Kind kind;
    std::string uid, version;
    bool is_cached = false;  // it has our label, so that the store tells of its end
    Time looked_at;
  };
  // When this process first saw that of a pod.
  struct Sight {
    std::optional<Time> failed, succeeded, deleting, node_silent;
    bool is_pending = false;
    bool operator==(const Sight&) const = default;
  };
  // What it knows of one of the job's guards, which it may not read.
  struct Guard {
    bool exists = false;         // it did when it was last created
    std::optional<int> attempt;  // for whose pods that was
  };
  // What this process knows of a job beyond the caches; lost at a restart without harm.
  struct Memory {
    std::string job_uid;
    kube::Owner owner;                          // the job, as its children name it
    std::string job_version;                    // of our last status write
    std::map<std::string, Creation> created;    // by uid
    std::map<std::string, kube::Key> deleted;   // uid of a pod -> its key
    std::map<std::string, Conflict> conflicts;  // by name
    std::map<std::string, Sight> sights;        // of pods, by uid
    SeenWorkers seen_workers;
    std::vector<std::pair<kube::Kind, kube::Key>> unsure;  // writes whose outcome is not known
    std::optional<Time> last_status_write;
    std::optional<Time> last_cause, last_restart;
    Time first_seen;
    // To write a status that can wait, by its lane; kept until one is written.
    std::optional<SteadyTime> turn, count_turn;
    std::vector<Creation> updated;                // PodGroups and Workloads
    std::map<std::string, kube::Object> flavors;  // of Kueue, by name; read once
    std::optional<CreateFault> create_fault;      // of the last try
    int create_failures = 0;                      // in a row
    std::optional<SteadyTime> creates_after;      // none is tried before
    Guard token_secret, network_policy;
    // Where the leading pod is asked for progress, and of which generation of the job: a template
    // is not parsed for that at each look.
    std::optional<std::pair<std::int64_t, int>> leading_port;
  };
  // One reconcile's values.
  struct Context {
    kube::Store<ObservedJob>::Ptr job;
    Observed observed;
    std::optional<ClusterSpec> cluster;  // while pods are made
    std::optional<CreateFault> fault;    // of a create; guarded by mutex
    std::atomic<bool> tried_create{false};
    std::atomic<bool> refused{false};  // a create has failed: no other is begun
    // The API server has not answered in time: 512 calls that all wait for it would take an hour.
    std::atomic<bool> unanswered{false};
    std::mutex mutex;  // guards `memory` while actions run in parallel
    Memory& memory;
  };

  const kube::AnyStore& StoreOf(const kube::Kind& kind) const;  // of a child's kind
  std::vector<const kube::AnyStore*> ChildStores() const;
  bool CachesAreBehind(const kube::Identity& job, Memory& memory) const;
  absl::Status LookAtUnsure(Memory& memory);
  absl::Status LookAtConflicts(const kube::Key& key, Memory& memory);
  void Observe(Context& context);
  void ObserveSights(Context& context);
  bool IsSilentNode(const std::string& node) const;
  bool IsSettled(const kube::Key& key, const Conflict& conflict, const kube::Owner& owner) const;
  void BoundActions(Plan& plan, const Memory& memory) const;
  // Creates slowly at first if the last ones failed; stops at the first that fails.
  absl::Status ActInSteps(const std::vector<Action>& actions, Context& context);
  void NoteCreates(bool failed, Context& context);
  void ObserveKueue(Context& context) const;
  // Whatever new pods need besides the job; a failure is noted as that of a create.
  absl::Status PreparePods(Context& context);
  kube::Object PodOf(const CreatePod& create, const Context& context) const;
  std::optional<api::Progress> LatestProgress(const Context& context);
  int LeadingPort(const Context& context) const;
  absl::Status Act(const Plan& plan, Context& context);  // creates and deletes
  absl::Status TellOfFault(const absl::Status& fault, Context& context);
  void WaitForTurn(Plan& plan, Context& context);   // puts a status off that can wait
  absl::Status Tell(Plan& plan, Context& context);  // one status write in its turn, then events
  absl::Status ApplyAction(const Action& action, Context& context);
  absl::Status Create(const kube::Kind& kind, const kube::Object& object, Context& context);
  absl::Status CreateTokenSecretOf(bool is_repeat, Context& context);
  absl::Status CreateNetworkPolicyOf(bool is_repeat, Context& context);
  static absl::Status NoteGuard(const absl::Status& answer, bool is_repeat, Guard& guard,
                                Context& context);
  static absl::Status FailCreate(absl::Status status, CreateFault fault, Context& context);
  absl::Status UpdatePodGroupOf(Context& context);
  absl::Status Suspend(const SetSuspend& change, Context& context);
  absl::Status CreateWorkloadOf(Context& context);
  // What `change` makes of the job's Workload is written to its status.
  absl::Status ChangeWorkload(Context& context,
                              const std::function<kube::Object(kube::Object)>& change);
  // The job's PodGroup or Workload, if the cache has one.
  static kube::Store<kube::Object>::Ptr ChildOf(const kube::Store<kube::Object>& store,
                                                const Context& context);
  absl::Status DeleteChild(const kube::Kind& kind, Context& context);
  absl::Status NoteUpdate(const kube::Kind& kind, const absl::StatusOr<kube::Object>& updated,
                          Context& context);
  absl::Status DeletePodOf(const DeletePod& pod, Context& context);
  absl::Status WriteStatus(const api::TrainingJobStatus& status, Context& context);
  // The metadata of a write of the job's status. Asks the server for what is too large to be held.
  absl::StatusOr<kube::Object> MetadataOfStatus(const Context& context);
  void NoteWriteTime(Duration took);
  Memory& MemoryOf(const kube::Key& key, const std::string& job_uid);
  void Forget(const kube::Key& key);

  kube::Client& client_;
  const Stores stores_;
  const Addresses& addresses_;
  ProgressSource& progress_;
  kube::EventRecorder& events_;
  const Clock& clock_;
  const Settings settings_;
  JobTokens* const tokens_;
  Helpers helpers_;
  std::atomic<std::int64_t> stale_reads_{0};
  std::mutex mutex_;
  std::map<kube::Key, Memory> memories_;  // guarded by mutex_; an entry belongs to who has its key
  // Guarded by mutex_; of statuses that can wait: first sights and reasons, and counts.
  kube::TokenBucket turns_, count_turns_;
  Duration write_time_{};  // guarded by mutex_; of a status, averaged
};

}  // namespace lockstep::controller
