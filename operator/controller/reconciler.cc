#include "operator/controller/reconciler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/base/status.h"
#include "operator/controller/build_pod.h"
#include "operator/controller/build_service.h"
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
  if (CachesAreBehind(*job, memory)) return kCacheRetry;
  LOCKSTEP_RETURN_IF_ERROR(LookAtConflicts(key, memory));
  Context context{.job = std::move(job), .observed = {}, .mutex = {}, .memory = memory};
  Observe(context);
  const Plan plan = MakePlan(context.observed);
  const std::size_t conflicts = memory.conflicts.size();
  LOCKSTEP_RETURN_IF_ERROR(Act(plan, context));
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
  return kind == kube::kPodKind ? stores_.pods : stores_.services;
}

bool Reconciler::CachesAreBehind(const kube::Object& job, Memory& memory) const {
  std::erase_if(memory.created, [](const auto& entry) {
    const Creation& creation = entry.second;
    return !kube::IsOlderVersion(creation.store->resource_version(), creation.version);
  });
  for (const kube::Store* store : {&stores_.pods, &stores_.services}) {
    for (const kube::ObjectPtr& object : store->OwnedBy(memory.job_uid)) {
      memory.created.erase(kube::Uid(*object));
    }
  }
  std::erase_if(memory.deleted, [this](const auto& entry) {
    const kube::ObjectPtr pod = stores_.pods.Get(entry.second);
    return !pod || kube::Uid(*pod) != entry.first || kube::IsBeingDeleted(*pod);
  });
  return !memory.created.empty() || !memory.deleted.empty() ||
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
  for (const auto& [name, looked_at] : context.memory.conflicts) {
    observed.name_conflicts.push_back(name);
  }
  observed.last_status_write = context.memory.last_status_write;
  observed.now = clock_.Now();
  observed.settings = settings_;
  observed.progress = LatestProgress(observed);
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
  const auto threads = static_cast<std::size_t>(std::max(settings_.parallel_calls, 1));
  return ForEach(plan.actions.size(), threads,
                 [&](std::size_t i) { return ApplyAction(plan.actions[i], context); });
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
      Visitor{
          [&](const CreateService&) {
            return Create(kube::kServiceKind, BuildService(job), context);
          },
          [&](const CreatePod& create) {
            return Create(
                kube::kPodKind,
                BuildPod(job, addresses_, settings_, {create.role, create.index}, create.attempt),
                context);
          },
          [&](const DeletePod& pod) { return Delete(kube::kPodKind, pod.name, pod.uid, context); },
          [&](const DeleteJob&) {
            return Delete(kTrainingJobKind, job.metadata.name, job.metadata.uid, context);
          }},
      action);
}

absl::Status Reconciler::Create(const kube::Kind& kind, const kube::Object& object,
                                Context& context) {
  auto made = client_.Create(kind, object);
  const bool unsure = MayHaveHappened(made.status());
  if (absl::IsAlreadyExists(made.status())) made = client_.Get(kind, kube::KeyOf(object));
  const std::lock_guard lock(context.mutex);
  if (unsure) context.memory.unsure.emplace_back(kind, kube::KeyOf(object));
  if (!made.ok()) return made.status();
  // An earlier call of ours may have made it; by name alone nothing is ours.
  if (kube::ControllerUid(*made) == context.memory.job_uid) {
    context.memory.created[kube::Uid(*made)] = {&StoreOf(kind), kube::ResourceVersion(*made)};
  } else {
    context.memory.conflicts[kube::Name(*made)] = clock_.Now();
  }
  return absl::OkStatus();
}

absl::Status Reconciler::Delete(const kube::Kind& kind, const std::string& name,
                                const std::string& uid, Context& context) {
  const kube::Key key{context.observed.job.metadata.namespace_name, name};
  const absl::Status status = client_.Delete(kind, key, uid);
  // Gone already: that one is no more. After a conflict it may be, or not: look again.
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  if (kind != kube::kPodKind) return absl::OkStatus();
  const std::lock_guard lock(context.mutex);
  context.memory.deleted[uid] = key;
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
