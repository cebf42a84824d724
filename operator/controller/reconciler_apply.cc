// What a plan does: the calls to the API server, and what is remembered of them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/status.h"
#include "operator/controller/children/build_network_policy.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/children/build_token_secret.h"
#include "operator/controller/children/gang.h"
#include "operator/controller/kueue_calls.h"
#include "operator/controller/pods_at_once.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/rules/make_plan.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/held_metadata.h"
#include "operator/kube/backoff.h"
#include "operator/kube/rest/api_errors.h"

namespace lockstep::controller {
namespace {

// Between the turns of statuses that can wait, however slow the API server is.
constexpr Duration kFarthestTurns = std::chrono::milliseconds(100);

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

// The server understood and said no: what it says is for the job's owner to read. Other failures
// are, too, once they come a second time.
bool IsRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
}

// Gone already: that one is no more. After a conflict it may be, or not: the caller looks again.
absl::Status IgnoreGone(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// Gone, or moved on: the cache will see the version that was missed, and this is decided again.
absl::Status IgnoreMoved(const absl::Status& status) {
  return absl::IsAborted(status) ? absl::OkStatus() : IgnoreGone(status);
}

// True if the server had no time for a call, which the client then repeated for as long as it may:
// the next call would take as long. An admission webhook refuses one object with the same codes,
// but at once.
bool IsUnanswered(const absl::Status& status, Duration took) {
  if (absl::IsDeadlineExceeded(status)) return true;
  const bool asks_for_time = absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
  return asks_for_time && took >= std::chrono::seconds(1);
}

template <typename... Ts>
struct Visitor : Ts... {
  using Ts::operator()...;
};

}  // namespace

// Nothing is created before its time, whoever asks for another look at the job; and of the rest so
// much that the job is looked at again soon.
void Reconciler::BoundActions(Plan& plan, const Memory& memory) const {
  const SteadyTime now = clock_.SteadyNow();
  if (memory.creates_after && *memory.creates_after > now &&
      std::erase_if(plan.actions, IsCreate) > 0) {
    RequeueWithin(plan, *memory.creates_after - now);
  }
  if (plan.actions.size() <= settings_.most_actions) return;
  plan.actions.resize(settings_.most_actions);
  RequeueWithin(plan, Duration::zero());
}

absl::Status Reconciler::ActInSteps(const std::vector<Action>& actions, Context& context) {
  auto threads = static_cast<std::size_t>(std::max(settings_.parallel_calls, 1));
  if (context.cluster) threads = PodsAtOnce(context.observed.job, threads);  // pods are made
  const auto count_before = [&actions](int stage) {
    const auto end = std::ranges::find_if(
        actions, [stage](const Action& action) { return StageOf(action) >= stage; });
    return static_cast<std::size_t>(end - actions.begin());
  };
  const std::size_t others = count_before(2);
  const bool has_guards = others > count_before(1);
  const bool carefully = context.memory.create_failures > 0;
  std::size_t step = carefully ? others + 1 : actions.size();
  if (has_guards) step = others;  // pods wait for them
  absl::Status result;
  for (std::size_t begin = 0; begin < actions.size(); begin += step) {
    if (begin > 0) step = carefully ? begin - others + 1 : actions.size();  // 1, 2, 4 …
    const std::size_t count = std::min(step, actions.size() - begin);
    result.Update(helpers_.ForEach(count, threads, [&](std::size_t i) {
      const Action& action = actions[begin + i];
      if (context.unanswered || (IsCreate(action) && context.refused)) return absl::OkStatus();
      if (IsCreate(action)) context.tried_create = true;
      const SteadyTime start = clock_.SteadyNow();
      absl::Status done = ApplyAction(action, context);
      if (IsUnanswered(done, clock_.SteadyNow() - start)) context.unanswered = true;
      if (IsCreate(action) && !done.ok()) context.refused = true;
      return done;
    }));
  }
  return result;
}

void Reconciler::NoteCreates(bool failed, Context& context) {
  Memory& memory = context.memory;
  memory.create_fault.reset();
  if (!failed) {
    memory.create_failures = 0;
    memory.creates_after.reset();
    return;
  }
  ++memory.create_failures;
  memory.creates_after =
      clock_.SteadyNow() + kube::BackoffDelay({.initial = settings_.create_backoff,
                                               .limit = settings_.create_backoff_limit},
                                              memory.create_failures, 0.0);
  const bool is_told = context.fault && (context.fault->is_refusal || memory.create_failures > 1);
  if (is_told) memory.create_fault = context.fault;
}

absl::Status Reconciler::PreparePods(Context& context) {
  context.cluster.emplace(context.observed.job, addresses_);
  if (!context.observed.workload) return absl::OkStatus();
  const absl::Status read =
      ReadFlavors(client_, context.memory.flavors, *context.observed.workload);
  if (read.ok()) return read;
  context.refused = true;
  const std::lock_guard lock(context.mutex);
  return FailCreate(read, {.is_refusal = IsRefusal(read)}, context);
}

absl::Status Reconciler::Act(const Plan& plan, Context& context) {
  std::vector<Action> actions = plan.actions;
  std::ranges::stable_sort(actions, {}, StageOf);
  absl::Status acted = MakesPods(plan) ? PreparePods(context) : absl::OkStatus();
  acted.Update(ActInSteps(actions, context));
  if (context.tried_create || context.refused) NoteCreates(context.refused, context);
  return acted;
}

// What keeps children from being made stands in the job's status, not only in a log.
absl::Status Reconciler::TellOfFault(const absl::Status& fault, Context& context) {
  if (context.memory.create_fault) {
    context.observed.create_fault = context.memory.create_fault;
    Plan plan = MakePlan(context.observed);
    LOCKSTEP_RETURN_IF_ERROR(Tell(plan, context));
  }
  return fault;
}

// A status costs the API server more than a pod does: while it has no time for both, as its answers
// tell, pods go first.
void Reconciler::WaitForTurn(Plan& plan, Context& context) {
  if (!plan.status_can_wait) return;
  std::optional<SteadyTime>& turn =
      plan.only_counts ? context.memory.count_turn : context.memory.turn;
  const SteadyTime now = clock_.SteadyNow();
  if (!turn) {
    const std::lock_guard lock(mutex_);
    turn =
        (plan.only_counts ? count_turns_ : turns_).Take(now, std::min(write_time_, kFarthestTurns));
  }
  if (*turn > now) PutOffStatus(context.observed, *turn - now, plan);
}

absl::Status Reconciler::Tell(Plan& plan, Context& context) {
  WaitForTurn(plan, context);
  if (plan.status != context.observed.job.status) {
    LOCKSTEP_RETURN_IF_ERROR(WriteStatus(plan.status, context));
    if (plan.restarts) context.memory.last_restart = context.observed.now;
    if (plan.names_cause) context.memory.last_cause = context.observed.now;
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
              [&](const CreateTokenSecret& secret) {
                return CreateTokenSecretOf(secret.is_repeat, context);
              },
              [&](const CreateNetworkPolicy& policy) {
                return CreateNetworkPolicyOf(policy.is_repeat, context);
              },
              [&](const CreatePod& create) {
                return Create(kube::kPodKind, PodOf(create, context), context);
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
                    client_.Delete(kTrainingJobKind, context.job->key, job.metadata.uid));
              }},
      action);
}

absl::Status Reconciler::Create(const kube::Kind& kind, const kube::Object& object,
                                Context& context) {
  auto made = client_.Create(kind, object);
  const bool unsure = MayHaveHappened(made.status());
  const bool existed = absl::IsAlreadyExists(made.status());
  const absl::Status answer = made.status();
  if (existed) made = client_.GetMetadata(kind, kube::KeyOf(object));
  const std::lock_guard lock(context.mutex);
  if (unsure) context.memory.unsure.emplace_back(kind, kube::KeyOf(object));
  if (!made.ok()) {
    CreateFault fault{.is_refusal = IsRefusal(answer)};
    if (kind == kube::kPodKind && absl::IsInvalidArgument(answer)) {
      fault.invalid_pod = api::RoleFromName(kube::Label(object, api::kLabelRole));
    }
    return FailCreate(made.status(), std::move(fault), context);
  }
  const std::string version = kube::ResourceVersion(*made);
  // An earlier call of ours may have made it; by name alone nothing is ours.
  if (kube::OwnerOf(*made) == context.memory.owner) {
    const auto seen = kind == kube::kPodKind ? stores_.pods.Get(kube::KeyOf(object)) : nullptr;
    if (existed && seen && seen->uid == kube::Uid(*made) && !seen->value) {
      return FailCreate(absl::FailedPreconditionError(fmt::format("{} {} exists and cannot be read",
                                                                  kind.plural, kube::Name(*made))),
                        {.is_refusal = true}, context);
    }
    context.memory.created[kube::Uid(*made)] = {&StoreOf(kind), version};
    return absl::OkStatus();
  }
  if (kind == kube::kPodKind || kind == kube::kServiceKind) {
    context.memory.conflicts[kube::Name(*made)] = {kind, kube::Uid(*made), version,
                                                   !kube::Label(*made, api::kLabelJobUid).empty(),
                                                   clock_.Now()};
    return absl::OkStatus();
  }
  return FailCreate(
      absl::AlreadyExistsError(
          fmt::format("{} {} exists and belongs to another owner", kind.plural, kube::Name(*made))),
      {.is_refusal = true}, context);
}

// context.mutex is held.
absl::Status Reconciler::FailCreate(absl::Status status, CreateFault fault, Context& context) {
  fault.message = std::string(status.message());
  if (!context.fault) context.fault = std::move(fault);  // the first, as they come
  return status;
}

absl::Status Reconciler::CreateTokenSecretOf(bool is_repeat, Context& context) {
  const api::TrainingJob& job = context.observed.job;
  Guard& guard = context.memory.token_secret;
  if (absl::Status loaded = tokens_->Load(); !loaded.ok()) {
    return NoteGuard(loaded, is_repeat, guard, context);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string token, tokens_->TextFor(job.metadata.uid));
  const kube::Object secret = BuildTokenSecret(job, token);
  return NoteGuard(client_.Create(kube::kSecretKind, secret).status(), is_repeat, guard, context);
}

absl::Status Reconciler::CreateNetworkPolicyOf(bool is_repeat, Context& context) {
  const kube::Object policy = BuildNetworkPolicy(context.observed.job, settings_);
  return NoteGuard(client_.Create(kNetworkPolicyKind, policy).status(), is_repeat,
                   context.memory.network_policy, context);
}

// The name holds the job's uid. So what exists under it is ours, or of somebody who may create such
// an object in the job's namespace and got there first, which docs/security.md tells of. After an
// answer that was lost the same is created again. It may be refused though the object exists: the
// right is gone, or a quota is full, which is checked before the name. Then pods that are there
// tell that it exists, or this process remembers it.
absl::Status Reconciler::NoteGuard(const absl::Status& answer, bool is_repeat, Guard& guard,
                                   Context& context) {
  const bool exists = answer.ok() || absl::IsAlreadyExists(answer);
  const bool is_known = (is_repeat && absl::IsPermissionDenied(answer)) ||
                        (guard.exists && kube::ExceedsQuota(answer));
  if (is_known) {
    LogWarning("what the job's pods have had so far could not be created again; they are made",
               {{"error", std::string(answer.message())}});
  }
  const std::lock_guard lock(context.mutex);
  if (!exists && !is_known) {
    return FailCreate(answer, {.is_refusal = IsRefusal(answer)}, context);
  }
  guard.exists = guard.exists || exists;
  guard.attempt = context.observed.job.status.attempt;
  return absl::OkStatus();
}

kube::Store<kube::Object>::Ptr Reconciler::ChildOf(const kube::Store<kube::Object>& store,
                                                   const Context& context) {
  const auto owned = store.OwnedBy(context.memory.owner);
  return owned.empty() ? nullptr : owned.front();
}

absl::Status Reconciler::NoteUpdate(const kube::Kind& kind,
                                    const absl::StatusOr<kube::Object>& updated, Context& context) {
  if (!updated.ok()) return IgnoreMoved(updated.status());
  const std::lock_guard lock(context.mutex);
  context.memory.updated.push_back({&StoreOf(kind), kube::ResourceVersion(*updated)});
  return absl::OkStatus();
}

absl::Status Reconciler::UpdatePodGroupOf(Context& context) {
  const auto seen = ChildOf(*stores_.pod_groups, context);
  if (!seen) return absl::OkStatus();
  kube::Object group = seen->value;
  group["spec"].update(BuildPodGroup(context.observed.job, settings_).at("spec"));
  const kube::Kind& kind = PodGroupKind(settings_);
  return NoteUpdate(kind, client_.Update(kind, group), context);
}

absl::Status Reconciler::DeleteChild(const kube::Kind& kind, Context& context) {
  const auto owned = StoreOf(kind).AllOwnedBy(context.memory.owner);
  if (owned.empty()) return absl::OkStatus();
  return IgnoreGone(client_.Delete(kind, owned.front()->key, owned.front()->uid));
}

absl::Status Reconciler::Suspend(const SetSuspend& change, Context& context) {
  const auto changed = ChangeSuspend(client_, *context.job, change);
  if (!changed.ok()) return IgnoreMoved(changed.status());
  context.memory.job_version = kube::ResourceVersion(*changed);
  return absl::OkStatus();
}

absl::Status Reconciler::CreateWorkloadOf(Context& context) {
  const auto priority = ReadPriority(client_, context.observed.job);
  if (!priority.ok()) {
    context.fault = {std::string(priority.status().message()), IsRefusal(priority.status())};
    return priority.status();
  }
  return Create(kWorkloadKind, BuildWorkload(context.observed.job, settings_, *priority), context);
}

absl::Status Reconciler::ChangeWorkload(Context& context,
                                        const std::function<kube::Object(kube::Object)>& change) {
  const auto seen = ChildOf(*stores_.workloads, context);
  if (!seen) return absl::OkStatus();
  return NoteUpdate(kWorkloadKind, client_.UpdateStatus(kWorkloadKind, change(seen->value)),
                    context);
}

absl::Status Reconciler::DeletePodOf(const DeletePod& pod, Context& context) {
  const kube::Key key{context.observed.job.metadata.namespace_name, pod.name};
  LOCKSTEP_RETURN_IF_ERROR(IgnoreGone(pod.force ? client_.ForceDelete(kube::kPodKind, key, pod.uid)
                                                : client_.Delete(kube::kPodKind, key, pod.uid)));
  const std::lock_guard lock(context.mutex);
  context.memory.deleted[pod.uid] = key;
  return absl::OkStatus();
}

void Reconciler::NoteWriteTime(Duration took) {
  const std::lock_guard lock(mutex_);
  write_time_ += (took - write_time_) / 8;  // the last eight or so
}

absl::StatusOr<kube::Object> Reconciler::MetadataOfStatus(const Context& context) {
  const api::ObjectMeta& job = context.observed.job.metadata;
  kube::Object metadata;
  if (context.observed.owned_metadata) {
    metadata = kube::Object::parse(*context.observed.owned_metadata);
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(
        kube::Object live, client_.GetMetadata(kTrainingJobKind, {job.namespace_name, job.name}));
    metadata = OwnedMetadata(std::move(live["metadata"]));
  }
  metadata["name"] = job.name;
  metadata["namespace"] = job.namespace_name;
  metadata["uid"] = job.uid;
  metadata["resourceVersion"] = job.resource_version;
  return metadata;
}

absl::Status Reconciler::WriteStatus(const api::TrainingJobStatus& status, Context& context) {
  api::TrainingJob job;
  job.status = status;
  // The server takes the status alone, and would decode, default and compare a spec for nothing.
  kube::Object object = api::TrainingJobToJson(job);
  object.erase("spec");
  LOCKSTEP_ASSIGN_OR_RETURN(object["metadata"], MetadataOfStatus(context));
  const SteadyTime start = clock_.SteadyNow();
  auto written = client_.UpdateStatus(kTrainingJobKind, object);
  if (absl::IsInvalidArgument(written.status())) {
    // What pods have said is in these two. Neither may keep a job from being suspended or ended.
    LogWarning("the server finds a status invalid; it is written without progress and failure",
               {{"namespace", context.job->key.namespace_name},
                {"name", context.job->key.name},
                {"error", written.status().ToString()}});
    object["status"].erase("progress");
    object["status"].erase("failure");
    written = client_.UpdateStatus(kTrainingJobKind, object);
  }
  if (!written.ok()) {
    if (MayHaveHappened(written.status())) {
      context.memory.unsure.emplace_back(kTrainingJobKind, context.job->key);
    }
    return written.status();
  }
  NoteWriteTime(clock_.SteadyNow() - start);
  context.memory.job_version = kube::ResourceVersion(*written);
  context.memory.last_status_write = context.observed.now;
  context.memory.turn.reset();
  context.memory.count_turn.reset();
  return absl::OkStatus();
}

}  // namespace lockstep::controller
