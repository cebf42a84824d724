#include "operator/controller/reconciler.h"

#include <algorithm>
#include <utility>

#include "api/base/status.h"
#include "operator/controller/build_pod.h"
#include "operator/controller/kueue_calls.h"
#include "operator/controller/replicas.h"
#include "operator/controller/status.h"

namespace lockstep::controller {
namespace {

// The caches' own events come sooner; this is for a watch that has lost its way.
constexpr Duration kCacheRetry = std::chrono::seconds(1);
constexpr Duration kConflictLook = std::chrono::minutes(1);
// With the threads that reconcile, as many as RestClient has requests under way.
constexpr std::size_t kMostHelpers = 32;

}  // namespace

Reconciler::Reconciler(kube::Client& client, const Stores& stores, const Addresses& addresses,
                       ProgressSource& progress, kube::EventRecorder& events, const Clock& clock,
                       Settings settings)
    : client_(client),
      stores_(stores),
      addresses_(addresses),
      progress_(progress),
      events_(events),
      clock_(clock),
      settings_(std::move(settings)),
      helpers_(kMostHelpers),
      turns_(settings_.status_rate, settings_.status_burst) {}

absl::StatusOr<std::optional<Duration>> Reconciler::Reconcile(const kube::Key& key) {
  kube::Store<ObservedJob>::Ptr job = stores_.jobs.Get(key);
  if (!job) {  // deleted: owner references clean up
    Forget(key);
    return std::nullopt;
  }
  Memory& memory = MemoryOf(key, job->uid);
  LOCKSTEP_RETURN_IF_ERROR(LookAtUnsure(memory));
  if (CachesAreBehind(*job, memory)) {
    ++stale_reads_;
    return kCacheRetry;
  }
  LOCKSTEP_RETURN_IF_ERROR(LookAtConflicts(key, memory));
  Context context{
      .job = std::move(job), .observed = {}, .cluster = {}, .mutex = {}, .memory = memory};
  Observe(context);
  LOCKSTEP_RETURN_IF_ERROR(ObserveKueue(context));
  Plan plan = MakePlan(context.observed);
  const std::size_t conflicts = memory.conflicts.size();
  if (const absl::Status acted = Act(plan, context); !acted.ok()) {
    return TellOfFault(acted, context);
  }
  // A name turned out to belong to somebody else: the next plan says so.
  if (memory.conflicts.size() != conflicts) return std::chrono::milliseconds(1);
  LOCKSTEP_RETURN_IF_ERROR(Tell(plan, context));
  return plan.requeue_after;
}

absl::Status Reconciler::LookAtUnsure(Memory& memory) {
  while (!memory.unsure.empty()) {
    const auto& [kind, key] = memory.unsure.back();
    const auto object = client_.Get(kind, key);
    if (!object.ok() && !absl::IsNotFound(object.status())) return object.status();
    if (object.ok() && kind == kTrainingJobKind) {
      memory.job_version = kube::ResourceVersion(*object);
    } else if (object.ok() && kube::ControllerUid(*object) == memory.job_uid) {
      memory.created[kube::Uid(*object)] = {&StoreOf(kind), kube::ResourceVersion(*object)};
    }
    memory.unsure.pop_back();
  }
  return absl::OkStatus();
}

const kube::AnyStore& Reconciler::StoreOf(const kube::Kind& kind) const {
  if (kind == kube::kPodKind) return stores_.pods;
  if (kind == kube::kServiceKind) return stores_.services;
  return kind == kWorkloadKind ? *stores_.workloads : *stores_.pod_groups;
}

std::vector<const kube::AnyStore*> Reconciler::ChildStores() const {
  std::vector<const kube::AnyStore*> stores = {&stores_.pods, &stores_.services};
  if (stores_.pod_groups != nullptr) stores.push_back(stores_.pod_groups);
  if (stores_.workloads != nullptr) stores.push_back(stores_.workloads);
  return stores;
}

bool Reconciler::CachesAreBehind(const kube::Identity& job, Memory& memory) const {
  std::erase_if(memory.created, [](const auto& entry) {
    const Creation& creation = entry.second;
    return !kube::IsOlderVersion(creation.store->resource_version(), creation.version);
  });
  for (const kube::AnyStore* store : ChildStores()) {
    if (memory.created.empty()) break;
    for (const kube::AnyStore::Ptr& object : store->AllOwnedBy(memory.job_uid)) {
      memory.created.erase(object->uid);
    }
  }
  std::erase_if(memory.deleted, [this](const auto& entry) {
    const kube::AnyStore::Ptr pod = stores_.pods.Find(entry.second);
    return !pod || pod->uid != entry.first || pod->being_deleted;
  });
  std::erase_if(memory.updated, [](const Creation& write) {
    return !kube::IsOlderVersion(write.store->resource_version(), write.version);
  });
  return !memory.updated.empty() || !memory.created.empty() || !memory.deleted.empty() ||
         kube::IsOlderVersion(job.resource_version, memory.job_version);
}

absl::Status Reconciler::LookAtConflicts(const kube::Key& key, Memory& memory) {
  std::vector<std::string> resolved;
  for (auto& [name, looked_at] : memory.conflicts) {
    if (clock_.Now() - looked_at < kConflictLook) continue;
    const kube::Kind& kind = name == key.name ? kube::kServiceKind : kube::kPodKind;
    const auto object = client_.Get(kind, {key.namespace_name, name});
    if (!object.ok() && !absl::IsNotFound(object.status())) return object.status();
    const bool foreign = object.ok() && kube::ControllerUid(*object) != memory.job_uid;
    if (foreign) {
      looked_at = clock_.Now();
    } else {
      resolved.push_back(name);
    }
  }
  for (const std::string& name : resolved) memory.conflicts.erase(name);
  return absl::OkStatus();
}

void Reconciler::Observe(Context& context) {
  Observed& observed = context.observed;
  static_cast<ObservedJob&>(observed) = context.job->value;
  auto pods = stores_.pods.OwnedBy(context.memory.job_uid);
  std::erase_if(pods, [](const auto& pod) { return !pod->value; });
  std::ranges::sort(pods, {}, [](const auto& pod) { return PlaceOf(*pod->value); });
  observed.pods.reserve(pods.size());
  for (const auto& pod : pods) observed.pods.push_back(*pod->value);
  observed.has_service = !stores_.services.AllOwnedBy(context.memory.job_uid).empty();
  if (stores_.pod_groups != nullptr) {
    if (const auto group = ChildOf(*stores_.pod_groups, context)) {
      observed.pod_group_spec = group->value.value("spec", kube::Object::object());
    }
  }
  for (const auto& [name, looked_at] : context.memory.conflicts) {
    observed.name_conflicts.push_back(name);
  }
  observed.create_fault = context.memory.create_fault;
  observed.last_status_write = context.memory.last_status_write;
  observed.first_seen = context.memory.first_seen;
  observed.now = clock_.Now();
  observed.settings = settings_;
  observed.progress = LatestProgress(observed);
}

absl::Status Reconciler::ObserveKueue(Context& context) {
  Observed& observed = context.observed;
  if (stores_.workloads == nullptr || !IsQueued(observed.job, settings_)) return absl::OkStatus();
  const auto workload = ChildOf(*stores_.workloads, context);
  if (!workload) return absl::OkStatus();
  observed.workload = ReadWorkload(workload->value);
  return ReadFlavors(client_, context.memory.flavors, *observed.workload);
}

kube::Object Reconciler::PodOf(const CreatePod& create, const Context& context) const {
  const Observed& observed = context.observed;
  kube::Object pod =
      BuildPod(*context.cluster, settings_, {create.role, create.index}, create.attempt);
  if (!observed.workload) return pod;
  const auto grant = observed.workload->granted.find(create.role);
  if (grant != observed.workload->granted.end()) ApplyGrant(grant->second, pod);
  return pod;
}

std::optional<api::Progress> Reconciler::LatestProgress(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  if (!job.spec.training || observed.invalid) return std::nullopt;
  if (IsTerminal(job.status)) {
    progress_.Forget(job.metadata.uid);
    return std::nullopt;
  }
  const Replica leading = LeadingReplica(job);
  const ObservedPod* pod = FindPod(observed, leading);
  if (pod == nullptr) return std::nullopt;
  if (pod->termination && pod->termination->progress) return pod->termination->progress;
  if (pod->ip.empty()) return std::nullopt;
  const int port = addresses_.Of(job, leading.role, leading.index).port;
  return progress_.Latest({job.metadata.uid, pod->ip, port});
}

Reconciler::Memory& Reconciler::MemoryOf(const kube::Key& key, const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  Memory& memory = memories_[key];
  if (memory.job_uid != job_uid) {  // a namesake of the one we knew
    memory = {};
    memory.job_uid = job_uid;
    memory.first_seen = clock_.Now();
  }
  return memory;
}

void Reconciler::Forget(const kube::Key& key) {
  const std::lock_guard lock(mutex_);
  const auto it = memories_.find(key);
  if (it == memories_.end()) return;
  progress_.Forget(it->second.job_uid);
  memories_.erase(it);
}

}  // namespace lockstep::controller
