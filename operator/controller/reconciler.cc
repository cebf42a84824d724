#include "operator/controller/reconciler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "operator/controller/children/build_network_policy.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/build_token_secret.h"
#include "operator/controller/kueue_calls.h"
#include "operator/controller/rules/losses.h"
#include "operator/controller/rules/make_plan.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {
namespace {

// The caches' own events come sooner; this is for a watch that has lost its way.
constexpr Duration kCacheRetry = std::chrono::seconds(1);
constexpr Duration kConflictLook = std::chrono::minutes(1);
// With the threads that reconcile, as many as RestClient has requests under way.
constexpr std::size_t kMostHelpers = 32;

}  // namespace

Reconciler::Reconciler(const Collaborators& with, const Stores& stores, Settings settings)
    : client_(with.client),
      stores_(stores),
      addresses_(with.addresses),
      progress_(with.progress),
      events_(with.events),
      clock_(with.clock),
      settings_(std::move(settings)),
      tokens_(with.tokens),
      helpers_(kMostHelpers),
      turns_(settings_.status_rate, settings_.status_burst),
      count_turns_(settings_.status_rate, settings_.status_burst) {
  LOCKSTEP_CHECK(tokens_ != nullptr || !settings_.job_tokens,
                 "job_tokens without the key for them");
}

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
  Plan plan = MakePlan(context.observed);
  BoundActions(plan, memory);
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
  std::mutex mutex;  // guards `memory` and `left`
  std::vector<std::pair<kube::Kind, kube::Key>> left;
  const auto look = [&](std::size_t i) {
    const auto& [kind, key] = memory.unsure[i];
    const auto object = client_.GetMetadata(kind, key);
    const std::lock_guard lock(mutex);
    if (!object.ok() && !absl::IsNotFound(object.status())) {
      left.emplace_back(kind, key);
      return object.status();
    }
    if (object.ok() && kind == kTrainingJobKind) {
      memory.job_version = kube::ResourceVersion(*object);
    } else if (object.ok() && kube::OwnerOf(*object) == memory.owner) {
      memory.created[kube::Uid(*object)] = {&StoreOf(kind), kube::ResourceVersion(*object)};
    }
    return absl::OkStatus();
  };
  const auto threads = static_cast<std::size_t>(std::max(settings_.parallel_calls, 1));
  const absl::Status looked = helpers_.ForEach(memory.unsure.size(), threads, look);
  memory.unsure = std::move(left);
  return looked;
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
  const auto has_seen = [&job](const Creation& write) {
    const std::string seen = write.store->resource_version(job.key.namespace_name);
    return !kube::IsOlderVersion(seen, write.version);
  };
  std::erase_if(memory.created, [&](const auto& entry) { return has_seen(entry.second); });
  for (const kube::AnyStore* store : ChildStores()) {
    if (memory.created.empty()) break;
    for (const kube::AnyStore::Ptr& object : store->AllOwnedBy(memory.owner)) {
      memory.created.erase(object->uid);
    }
  }
  std::erase_if(memory.deleted, [this](const auto& entry) {
    const kube::AnyStore::Ptr pod = stores_.pods.Find(entry.second);
    return !pod || pod->uid != entry.first || pod->being_deleted;
  });
  std::erase_if(memory.updated, has_seen);
  return !memory.updated.empty() || !memory.created.empty() || !memory.deleted.empty() ||
         kube::IsOlderVersion(job.resource_version, memory.job_version);
}

// True if the store, which sees every object with our label, tells that the name is free.
bool Reconciler::IsSettled(const kube::Key& key, const Conflict& conflict,
                           const kube::Owner& owner) const {
  const kube::AnyStore& store = StoreOf(conflict.kind);
  if (!conflict.is_cached) return false;
  if (kube::IsOlderVersion(store.resource_version(key.namespace_name), conflict.version)) {
    return false;
  }
  const kube::AnyStore::Ptr holder = store.Find(key);
  return !holder || holder->uid != conflict.uid ||
         kube::Owner{holder->key.namespace_name, holder->owner_kind, holder->owner_uid} == owner;
}

absl::Status Reconciler::LookAtConflicts(const kube::Key& key, Memory& memory) {
  std::vector<std::string> resolved;
  for (auto& [name, conflict] : memory.conflicts) {
    const kube::Key holder{key.namespace_name, name};
    if (IsSettled(holder, conflict, memory.owner)) {
      resolved.push_back(name);
      continue;
    }
    // Of a stranger's object nobody tells, and a watch may have lost its way.
    if (clock_.Now() - conflict.looked_at < kConflictLook) continue;
    const auto object = client_.GetMetadata(conflict.kind, holder);
    if (!object.ok() && !absl::IsNotFound(object.status())) return object.status();
    const bool foreign = object.ok() && kube::OwnerOf(*object) != memory.owner;
    if (foreign) {
      conflict.looked_at = clock_.Now();
    } else {
      resolved.push_back(name);
    }
  }
  for (const std::string& name : resolved) memory.conflicts.erase(name);
  return absl::OkStatus();
}

bool IsReadyNode(const kube::Object& node) {
  return kube::IsTrueCondition(kube::ConditionOf(kube::Member(node, "status"), "Ready"));
}

kube::FieldTree NodeFields() {
  kube::FieldTree fields = kube::IdentityFields();
  fields.Add("status.conditions.type");
  fields.Add("status.conditions.status");
  return fields;
}

// One that is gone will not speak again either. Whether it is can only be told while nodes are
// heard of: one that has come or recovered since would be lost with all that runs on it.
bool Reconciler::IsSilentNode(const std::string& node) const {
  if (stores_.nodes == nullptr || node.empty()) return false;
  if (stores_.nodes_are_current && !stores_.nodes_are_current()) return false;
  const auto known = stores_.nodes->Get({"", node});
  return !known || !known->value;
}

void Reconciler::ObserveSights(Context& context) {
  const Time now = context.observed.now;
  const auto note = [now](bool holds, std::optional<Time>& since) {
    if (!holds) since.reset();
    if (holds && !since) since = now;
  };
  std::map<std::string, Sight> sights;
  for (ObservedPod& pod : context.observed.pods) {
    const auto known = context.memory.sights.extract(pod.uid);
    Sight sight = known.empty() ? Sight() : known.mapped();
    note(HasFailed(pod), sight.failed);
    note(HasSucceeded(pod), sight.succeeded);
    note(pod.being_deleted, sight.deleting);
    note(IsSilentNode(pod.node), sight.node_silent);
    sight.is_pending = pod.phase == PodPhase::kPending;
    pod.failed_since = sight.failed;
    pod.succeeded_since = sight.succeeded;
    pod.deleting_since = sight.deleting;
    pod.node_silent_since = sight.node_silent;
    if (sight != Sight()) sights[pod.uid] = sight;
  }
  std::swap(context.memory.sights, sights);
  // Those that are left have gone. One that never began may have waited for a guard that somebody
  // had deleted.
  if (std::ranges::any_of(sights, [](const auto& gone) { return gone.second.is_pending; })) {
    context.memory.token_secret.attempt.reset();
    context.memory.network_policy.attempt.reset();
  }
}

void Reconciler::Observe(Context& context) {
  Observed& observed = context.observed;
  static_cast<ObservedJob&>(observed) = context.job->value;
  auto pods = stores_.pods.OwnedBy(context.memory.owner);
  std::erase_if(pods, [](const auto& pod) { return !pod->value; });
  std::ranges::sort(pods, {}, [](const auto& pod) { return PlaceOf(*pod->value); });
  observed.pods.reserve(pods.size());
  for (const auto& pod : pods) observed.pods.push_back(*pod->value);
  observed.has_service = !stores_.services.AllOwnedBy(context.memory.owner).empty();
  if (stores_.pod_groups != nullptr) {
    if (const auto group = ChildOf(*stores_.pod_groups, context)) {
      observed.pod_group_spec = group->value.value("spec", kube::Object::object());
    }
  }
  for (const auto& [name, conflict] : context.memory.conflicts) {
    observed.name_conflicts.push_back(name);
  }
  observed.create_fault = context.memory.create_fault;
  observed.last_status_write = context.memory.last_status_write;
  observed.first_seen = context.memory.first_seen;
  observed.now = clock_.Now();
  observed.last_cause = context.memory.last_cause;
  observed.last_restart = context.memory.last_restart;
  observed.settings = settings_;
  ObserveSights(context);
  ObserveKueue(context);
  observed.gone_workers = context.memory.seen_workers.Note(observed);
  observed.has_token_secret = context.memory.token_secret.attempt == observed.job.status.attempt;
  observed.has_network_policy =
      context.memory.network_policy.attempt == observed.job.status.attempt;
  observed.progress = LatestProgress(context);
  if (observed.job.spec.training) observed.group = progress_.Group(observed.job.metadata.uid);
  observed.until_stranded = UntilStranded(observed);
}

void Reconciler::ObserveKueue(Context& context) const {
  Observed& observed = context.observed;
  // Of a job that cannot be read the label may be missing; the Workload is its own all the same.
  const bool may_have_one = observed.invalid || IsQueued(observed.job, settings_);
  if (stores_.workloads == nullptr || !may_have_one) return;
  const auto workload = ChildOf(*stores_.workloads, context);
  if (workload) observed.workload = ReadWorkload(workload->value);
}

kube::Object Reconciler::PodOf(const CreatePod& create, const Context& context) const {
  const Observed& observed = context.observed;
  Settings settings = settings_;
  if (!create.trainer_image.empty()) settings.trainer_image = create.trainer_image;
  kube::Object pod =
      BuildPod(*context.cluster, settings, {create.role, create.index}, create.attempt);
  if (create.has_token) MountToken(observed.job, pod);
  if (create.has_network_policy) NoteNetworkPolicy(observed.job, pod);
  if (!observed.workload) return pod;
  const auto grant = observed.workload->granted.find(create.role);
  if (grant != observed.workload->granted.end()) ApplyGrant(grant->second, pod);
  return pod;
}

int Reconciler::LeadingPort(const Context& context) const {
  const api::TrainingJob& job = context.observed.job;
  auto& known = context.memory.leading_port;
  if (!known || known->first != job.metadata.generation) {
    const Replica leading = LeadingReplica(job);
    known = {job.metadata.generation, addresses_.Of(job, leading.role, leading.index).port};
  }
  return known->second;
}

std::optional<api::Progress> Reconciler::LatestProgress(const Context& context) {
  const Observed& observed = context.observed;
  const api::TrainingJob& job = observed.job;
  if (IsTerminal(job.status)) {
    progress_.Forget(job.metadata.uid);
    return std::nullopt;
  }
  const Replica leading = LeadingReplica(job);
  const bool reports = job.spec.training && !observed.invalid;
  const ObservedPod* pod = reports ? FindPod(observed, leading) : nullptr;
  if (pod != nullptr && IsActive(*pod) && !pod->ip.empty()) {
    return progress_.Latest({job.metadata.uid, pod->ip, LeadingPort(context)});
  }
  // The address that was asked so far may be another pod's by now.
  const std::optional<api::Progress> said = progress_.Pause(job.metadata.uid);
  if (pod == nullptr || IsActive(*pod)) return std::nullopt;
  return pod->termination && pod->termination->progress ? pod->termination->progress : said;
}

Reconciler::Memory& Reconciler::MemoryOf(const kube::Key& key, const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  Memory& memory = memories_[key];
  if (memory.job_uid != job_uid) {  // a namesake of the one we knew, or the first of its name
    if (!memory.job_uid.empty()) progress_.Forget(memory.job_uid);
    memory = {};
    memory.job_uid = job_uid;
    memory.owner = {key.namespace_name, kube::OwnerKind(kTrainingJobKind), job_uid};
    memory.first_seen = clock_.Now();
  }
  return memory;
}

void Reconciler::Forget(const kube::Key& key) {
  const std::lock_guard lock(mutex_);
  const auto it = memories_.find(key);
  if (it == memories_.end()) return;
  progress_.Forget(it->second.job_uid);
  events_.Forget(it->second.job_uid);
  memories_.erase(it);
}

}  // namespace lockstep::controller
