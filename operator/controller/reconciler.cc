#include "operator/controller/reconciler.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/base/status.h"
#include "operator/controller/build_pod.h"
#include "operator/controller/build_service.h"
#include "operator/controller/gang.h"
#include "operator/controller/kueue_calls.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/parallel.h"
#include "operator/controller/replicas.h"
#include "operator/controller/status.h"

namespace lockstep::controller {
namespace {

// The caches' own events come sooner; this is for a watch that has lost its way.
constexpr Duration kCacheRetry = std::chrono::seconds(1);
constexpr Duration kConflictLook = std::chrono::minutes(1);

kube::EventType EventTypeOf(PlannedEvent::Type type) {
  return type == PlannedEvent::Type::kWarning ? kube::EventType::kWarning
                                              : kube::EventType::kNormal;
}

// After these nobody knows whether the server did what it was asked for; or it has moved on.
bool MayHaveHappened(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

// The server understood and said no: what it says is for the job's owner to read.
bool IsRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsNotFound(status);
}

// Gone already, or gone and made anew by somebody: either way that one is no more.
absl::Status IgnoreGone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsAborted(status) ? absl::OkStatus() : status;
}

template <typename... Ts>
struct Visitor : Ts... {
  using Ts::operator()...;
};

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
      settings_(std::move(settings)) {}

absl::StatusOr<std::optional<Duration>> Reconciler::Reconcile(const kube::Key& key) {
  kube::ObjectPtr job = stores_.jobs.Get(key);
  if (!job) {  // deleted: owner references clean up
    Forget(key);
    return std::nullopt;
  }
  Memory& memory = MemoryOf(key, kube::Uid(*job));
  LOCKSTEP_RETURN_IF_ERROR(LookAtUnsure(memory));
  if (CachesAreBehind(*job, memory)) {
    ++stale_reads_;
    return kCacheRetry;
  }
  LOCKSTEP_RETURN_IF_ERROR(LookAtConflicts(key, memory));
  Context context{.job = std::move(job), .observed = {}, .mutex = {}, .memory = memory};
  Observe(context);
  LOCKSTEP_RETURN_IF_ERROR(ObserveKueue(context));
  const Plan plan = MakePlan(context.observed);
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

const kube::Store& Reconciler::StoreOf(const kube::Kind& kind) const {
  if (kind == kube::kPodKind) return stores_.pods;
  if (kind == kube::kServiceKind) return stores_.services;
  return kind == kWorkloadKind ? *stores_.workloads : *stores_.pod_groups;
}

std::vector<const kube::Store*> Reconciler::ChildStores() const {
  std::vector<const kube::Store*> stores = {&stores_.pods, &stores_.services};
  if (stores_.pod_groups != nullptr) stores.push_back(stores_.pod_groups);
  if (stores_.workloads != nullptr) stores.push_back(stores_.workloads);
  return stores;
}

bool Reconciler::CachesAreBehind(const kube::Object& job, Memory& memory) const {
  std::erase_if(memory.created, [](const auto& entry) {
    const Creation& creation = entry.second;
    return !kube::IsOlderVersion(creation.store->resource_version(), creation.version);
  });
  for (const kube::Store* store : ChildStores()) {
    for (const kube::ObjectPtr& object : store->OwnedBy(memory.job_uid)) {
      memory.created.erase(kube::Uid(*object));
    }
  }
  std::erase_if(memory.deleted, [this](const auto& entry) {
    const kube::ObjectPtr pod = stores_.pods.Get(entry.second);
    return !pod || kube::Uid(*pod) != entry.first || kube::IsBeingDeleted(*pod);
  });
  std::erase_if(memory.updated, [](const Creation& write) {
    return !kube::IsOlderVersion(write.store->resource_version(), write.version);
  });
  return !memory.updated.empty() || !memory.created.empty() || !memory.deleted.empty() ||
         kube::IsOlderVersion(kube::ResourceVersion(job), memory.job_version);
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
  ObserveJob(*context.job, observed);
  for (const kube::ObjectPtr& object : stores_.pods.OwnedBy(context.memory.job_uid)) {
    if (std::optional<ObservedPod> pod = ObservePod(*object)) {
      observed.pods.push_back(*std::move(pod));
    }
  }
  std::ranges::sort(observed.pods, {}, [](const ObservedPod& pod) {
    return std::tuple(pod.role, pod.index, pod.attempt);
  });
  observed.has_service = !stores_.services.OwnedBy(context.memory.job_uid).empty();
  if (stores_.pod_groups != nullptr) {
    if (const kube::ObjectPtr group = ChildOf(*stores_.pod_groups, context)) {
      observed.pod_group_spec = group->value("spec", kube::Object::object());
    }
  }
  for (const auto& [name, looked_at] : context.memory.conflicts) {
    observed.name_conflicts.push_back(name);
  }
  observed.create_fault = context.memory.create_fault;
  observed.last_status_write = context.memory.last_status_write;
  observed.now = clock_.Now();
  observed.settings = settings_;
  observed.progress = LatestProgress(observed);
}

absl::Status Reconciler::ObserveKueue(Context& context) {
  Observed& observed = context.observed;
  if (stores_.workloads == nullptr || !IsQueued(observed.job, settings_)) return absl::OkStatus();
  const kube::ObjectPtr workload = ChildOf(*stores_.workloads, context);
  if (!workload) return absl::OkStatus();
  observed.workload = ReadWorkload(*workload);
  return ReadFlavors(client_, context.memory.flavors, *observed.workload);
}

kube::Object Reconciler::PodOf(const CreatePod& create, const Observed& observed) const {
  kube::Object pod =
      BuildPod(observed.job, addresses_, settings_, {create.role, create.index}, create.attempt);
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

absl::Status Reconciler::Act(const Plan& plan, Context& context) {
  if (!plan.actions.empty()) context.memory.create_fault.reset();
  const auto threads = static_cast<std::size_t>(std::max(settings_.parallel_calls, 1));
  return ForEach(plan.actions.size(), threads,
                 [&](std::size_t i) { return ApplyAction(plan.actions[i], context); });
}

// What keeps children from being made stands in the job's status, not only in a log.
absl::Status Reconciler::TellOfFault(const absl::Status& fault, Context& context) {
  if (context.memory.create_fault) {
    context.observed.create_fault = context.memory.create_fault;
    LOCKSTEP_RETURN_IF_ERROR(Tell(MakePlan(context.observed), context));
  }
  return fault;
}

absl::Status Reconciler::Tell(const Plan& plan, Context& context) {
  if (plan.status != context.observed.job.status) {
    LOCKSTEP_RETURN_IF_ERROR(WriteStatus(plan.status, context));
  }
  for (const PlannedEvent& event : plan.events) {
    events_.Record(kTrainingJobKind, *context.job, EventTypeOf(event.type), event.reason,
                   "Reconcile", event.message);
  }
  return absl::OkStatus();
}

absl::Status Reconciler::ApplyAction(const Action& action, Context& context) {
  const api::TrainingJob& job = context.observed.job;
  return std::visit(
      Visitor{[&](const CreateService&) {
                return Create(kube::kServiceKind, BuildService(job), context);
              },
              [&](const CreatePod& create) {
                return Create(kube::kPodKind, PodOf(create, context.observed), context);
              },
              [&](const CreatePodGroup&) {
                return Create(PodGroupKind(settings_), BuildPodGroup(job, settings_), context);
              },
              [&](const UpdatePodGroup&) { return UpdatePodGroupOf(context); },
              [&](const DeletePodGroup&) { return DeleteChild(PodGroupKind(settings_), context); },
              [&](const SetSuspend& change) { return Suspend(change, context); },
              [&](const CreateWorkload&) { return CreateWorkloadOf(context); },
              [&](const DeleteWorkload&) { return DeleteChild(kWorkloadKind, context); },
              [&](const ReleaseWorkload&) {
                return ChangeWorkload(context, [&](kube::Object workload) {
                  return Released(std::move(workload), context.observed.now);
                });
              },
              [&](const TellWorkload& tell) {
                return ChangeWorkload(context, [&](kube::Object workload) {
                  return WithWorkloadCondition(std::move(workload), tell.type, tell.value,
                                               tell.reason, tell.message, context.observed.now);
                });
              },
              [&](const DeletePod& pod) { return DeletePodOf(pod, context); },
              [&](const DeleteJob&) {
                return IgnoreGone(
                    client_.Delete(kTrainingJobKind, kube::KeyOf(*context.job), job.metadata.uid));
              }},
      action);
}

absl::Status Reconciler::Create(const kube::Kind& kind, const kube::Object& object,
                                Context& context) {
  auto made = client_.Create(kind, object);
  const bool unsure = MayHaveHappened(made.status());
  const bool refused = IsRefusal(made.status());
  if (absl::IsAlreadyExists(made.status())) made = client_.Get(kind, kube::KeyOf(object));
  const std::lock_guard lock(context.mutex);
  if (unsure) context.memory.unsure.emplace_back(kind, kube::KeyOf(object));
  if (!made.ok()) {
    if (refused) {
      const bool permanent = kind == kube::kPodKind && absl::IsInvalidArgument(made.status());
      context.memory.create_fault = {std::string(made.status().message()), permanent};
    }
    return made.status();
  }
  // An earlier call of ours may have made it; by name alone nothing is ours.
  if (kube::ControllerUid(*made) == context.memory.job_uid) {
    context.memory.created[kube::Uid(*made)] = {&StoreOf(kind), kube::ResourceVersion(*made)};
  } else if (kind == kube::kPodKind || kind == kube::kServiceKind) {
    context.memory.conflicts[kube::Name(*made)] = clock_.Now();
  } else {
    context.memory.create_fault = {
        fmt::format("{} {} exists and belongs to another owner", kind.plural, kube::Name(*made))};
    return absl::AlreadyExistsError(context.memory.create_fault->message);
  }
  return absl::OkStatus();
}

kube::ObjectPtr Reconciler::ChildOf(const kube::Store& store, const Context& context) const {
  const auto owned = store.OwnedBy(context.memory.job_uid);
  return owned.empty() ? nullptr : owned.front();
}

absl::Status Reconciler::NoteUpdate(const kube::Kind& kind,
                                    const absl::StatusOr<kube::Object>& updated, Context& context) {
  // After a conflict the cache will see the version that was missed, and this is decided again.
  if (!updated.ok()) return IgnoreGone(updated.status());
  const std::lock_guard lock(context.mutex);
  context.memory.updated.push_back({&StoreOf(kind), kube::ResourceVersion(*updated)});
  return absl::OkStatus();
}

absl::Status Reconciler::UpdatePodGroupOf(Context& context) {
  const kube::ObjectPtr seen = ChildOf(*stores_.pod_groups, context);
  if (!seen) return absl::OkStatus();
  kube::Object group = *seen;
  group["spec"].update(BuildPodGroup(context.observed.job, settings_).at("spec"));
  const kube::Kind& kind = PodGroupKind(settings_);
  return NoteUpdate(kind, client_.Update(kind, group), context);
}

absl::Status Reconciler::DeleteChild(const kube::Kind& kind, Context& context) {
  const kube::ObjectPtr seen = ChildOf(StoreOf(kind), context);
  if (!seen) return absl::OkStatus();
  return IgnoreGone(client_.Delete(kind, kube::KeyOf(*seen), kube::Uid(*seen)));
}

absl::Status Reconciler::Suspend(const SetSuspend& change, Context& context) {
  const auto changed = ChangeSuspend(client_, *context.job, change);
  if (!changed.ok()) return IgnoreGone(changed.status());
  context.memory.job_version = kube::ResourceVersion(*changed);
  return absl::OkStatus();
}

absl::Status Reconciler::CreateWorkloadOf(Context& context) {
  const auto priority = ReadPriority(client_, context.observed.job);
  if (!priority.ok()) {
    context.memory.create_fault = {std::string(priority.status().message())};
    return priority.status();
  }
  return Create(kWorkloadKind, BuildWorkload(context.observed.job, settings_, *priority), context);
}

absl::Status Reconciler::ChangeWorkload(Context& context,
                                        const std::function<kube::Object(kube::Object)>& change) {
  const kube::ObjectPtr seen = ChildOf(*stores_.workloads, context);
  if (!seen) return absl::OkStatus();
  return NoteUpdate(kWorkloadKind, client_.UpdateStatus(kWorkloadKind, change(*seen)), context);
}

absl::Status Reconciler::DeletePodOf(const DeletePod& pod, Context& context) {
  const kube::Key key{context.observed.job.metadata.namespace_name, pod.name};
  LOCKSTEP_RETURN_IF_ERROR(IgnoreGone(pod.force ? client_.ForceDelete(kube::kPodKind, key, pod.uid)
                                                : client_.Delete(kube::kPodKind, key, pod.uid)));
  const std::lock_guard lock(context.mutex);
  context.memory.deleted[pod.uid] = key;
  return absl::OkStatus();
}

absl::Status Reconciler::WriteStatus(const api::TrainingJobStatus& status, Context& context) {
  kube::Object job = *context.job;
  job["status"] = api::StatusToJson(status);
  const auto written = client_.UpdateStatus(kTrainingJobKind, job);
  if (!written.ok()) {
    if (MayHaveHappened(written.status())) {
      context.memory.unsure.emplace_back(kTrainingJobKind, kube::KeyOf(job));
    }
    return written.status();
  }
  context.memory.job_version = kube::ResourceVersion(*written);
  context.memory.last_status_write = context.observed.now;
  return absl::OkStatus();
}

Reconciler::Memory& Reconciler::MemoryOf(const kube::Key& key, const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  Memory& memory = memories_[key];
  if (memory.job_uid != job_uid) {  // a namesake of the one we knew
    memory = {};
    memory.job_uid = job_uid;
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
