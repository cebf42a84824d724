#include "operator/controller/plan_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/v1/names.h"
#include "base/status.h"
#include "operator/controller/children/build_network_policy.h"
#include "operator/controller/children/build_pod.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/children/build_token_secret.h"
#include "operator/controller/children/gang.h"
#include "operator/controller/kueue_calls.h"
#include "operator/controller/live_object.h"
#include "operator/controller/pods_at_once.h"
#include "operator/controller/rules/parts/guards.h"
#include "operator/controller/state/call_outcome.h"
#include "operator/controller/state/job_facts.h"
#include "operator/controller/state/kinds.h"
#include "operator/kube/backoff.h"
#include "operator/kube/server_errors.h"

namespace lockstep::controller {
namespace {

template <typename... Ts>
struct Visitor : Ts... {
  using Ts::operator()...;
};

}  // namespace

// Applies the back-off to every reconcile, whatever triggered it, and bounds the number of actions
// so that the job is observed again soon.
void PlanExecutor::Bound(Plan& plan, JobMemory& memory) const {
  const SteadyTime now = with_.clock.SteadyNow();
  memory.failed_actions.Bound(plan, now);
  memory.failed_creates.Bound(plan, now);
  memory.unstarted_pods.Bound(plan, now, settings_.ActionBackoff());
  if (plan.actions.size() <= settings_.most_actions) return;
  plan.actions.resize(settings_.most_actions);
  RequeueWithin(plan, Duration::zero());
}

std::vector<PlanExecutor::Part> PlanExecutor::InOrder(std::vector<Action> actions,
                                                      const JobMemory& memory) {
  const bool has_guards =
      std::ranges::any_of(actions, [](const Action& action) { return StageOf(action) == 1; });
  const auto has_failed = [&memory](const Action& action) {
    return IsCreate(action) && memory.failed_creates.HasFailed(GroupOf(action));
  };
  const bool all_wait = has_guards || memory.failed_creates.HasFailed({});
  const auto place_of = [&](const Action& action) {
    if (StageOf(action) < 2) return std::pair(0, CreateGroup());
    if (has_failed(action)) return std::pair(GroupOf(action) ? 3 : 1, GroupOf(action));
    return std::pair(all_wait ? 2 : 0, CreateGroup());
  };
  std::ranges::stable_sort(actions, {}, [&](const Action& action) {
    return std::pair(place_of(action), StageOf(action));
  });
  std::vector<Part> parts;
  for (Action& action : actions) {
    if (parts.empty() || place_of(parts.back().actions.back()) != place_of(action)) {
      parts.push_back({.actions = {}, .carefully = StageOf(action) == 2 && has_failed(action)});
    }
    parts.back().actions.push_back(std::move(action));
  }
  return parts;
}

absl::Status PlanExecutor::ActInSteps(const std::vector<Part>& parts, ReconcileContext& context) {
  auto threads = static_cast<std::size_t>(std::max(settings_.parallel_calls, 1));
  if (context.cluster) threads = PodsAtOnce(context.observed.job, threads);  // bounds memory
  const SteadyTime end = with_.clock.SteadyNow() + settings_.most_time;
  absl::Status result;
  for (const Part& part : parts) {
    const std::vector<Action>& actions = part.actions;
    std::size_t step = part.carefully ? 1 : actions.size();
    for (std::size_t begin = 0; begin < actions.size(); begin += step) {
      if (begin > 0) step = begin + 1;  // 1, 2, 4 …
      const std::size_t count = std::min(step, actions.size() - begin);
      result.Update(pool_.ForEach(
          count, threads, [&](std::size_t i) { return Act(actions[begin + i], end, context); }));
    }
  }
  return result;
}

absl::Status PlanExecutor::Act(const Action& action, SteadyTime end, ReconcileContext& context) {
  if (context.overloaded) return absl::OkStatus();
  if (with_.clock.SteadyNow() >= end) {
    context.out_of_time = true;
    return absl::OkStatus();
  }
  if (IsCreate(action) && !context.creates.Begin(GroupOf(action))) return absl::OkStatus();
  absl::Status done = ApplyAction(action, context);
  // The status code alone does not show overload: an admission webhook can reject a single object
  // with the same code, and that must not stop the other calls.
  if (kube::IsOverloaded(done)) context.overloaded = true;
  IsCreate(action) ? RecordCreate(action, done, context) : RecordAction(action, done, context);
  return done;
}

void PlanExecutor::RecordAction(const Action& action, const absl::Status& end,
                                ReconcileContext& context) {
  const std::lock_guard lock(context.mutex);
  context.memory.failed_actions.Record(action, end, with_.clock.SteadyNow(),
                                       settings_.ActionBackoff());
}

void PlanExecutor::RecordCreate(const Action& create, const absl::Status& end,
                                ReconcileContext& context) {
  if (!end.ok()) return context.creates.Fail(GroupOf(create));
  const auto* pod = std::get_if<CreatePod>(&create);
  if (pod == nullptr) return;
  const std::lock_guard lock(context.mutex);
  // The name may be another owner's: then there is no pod.
  const std::string name = PodName(context.observed.job, pod->role, pod->index);
  if (context.memory.conflicts.Has(name)) return;
  context.memory.unstarted_pods.RecordCreated({pod->role, pod->index}, with_.clock.SteadyNow());
}

absl::Status PlanExecutor::PreparePods(ReconcileContext& context) {
  context.cluster.emplace(context.observed.job, with_.addresses);
  if (!context.observed.workload) return absl::OkStatus();
  const absl::Status read =
      ReadFlavors(with_.client, context.memory.flavors, *context.observed.workload);
  if (read.ok()) return read;
  context.creates.Fail({});
  return FailCreate(read, {}, {.is_refusal = IsRefusal(read)}, context);
}

absl::Status PlanExecutor::Execute(Plan& plan, ReconcileContext& context) {
  absl::Status acted = MakesPods(plan) ? PreparePods(context) : absl::OkStatus();
  acted.Update(ActInSteps(InOrder(plan.actions, context.memory), context));
  if (context.out_of_time) RequeueWithin(plan, Duration::zero());
  context.memory.failed_creates.Record(context.creates, with_.clock.SteadyNow(),
                                       settings_.ActionBackoff());
  return acted;
}

kube::Object PlanExecutor::PodOf(const CreatePod& create, const ReconcileContext& context) const {
  const Observed& observed = context.observed;
  Settings settings = settings_;
  if (create.trainer_images) settings.trainer_images = *create.trainer_images;
  if (create.without_gang) settings.gang_scheduler_name.clear();
  kube::Object pod =
      BuildPod(*context.cluster, settings, {create.role, create.index}, create.attempt);
  if (create.has_token) {
    Reporting reporting{.url = settings_.progress_url, .channel = {}};
    if (HasReportBearer(observed)) {
      reporting.channel = ChannelOf(reporting.url, with_.TokenOf(observed.job.metadata.uid));
    }
    MountToken(observed.job, {create.role, create.index}, create.attempt, reporting, pod);
  }
  if (create.has_network_policy) NoteNetworkPolicy(observed.job, pod);
  if (!observed.workload) return pod;
  const auto grant = observed.workload->granted.find(create.role);
  if (grant != observed.workload->granted.end()) {
    ApplyGrant(grant->second, observed.job, create.role, pod);
  }
  return pod;
}

absl::Status PlanExecutor::ApplyAction(const Action& action, ReconcileContext& context) {
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
              [&](const DeletePodGroup&) {
                return DeleteChild(PodGroupKind(settings_), job.metadata.name, context);
              },
              [&](const SetSuspend& change) { return Suspend(change, context); },
              [&](const CreateWorkload&) { return CreateWorkloadOf(context); },
              [&](const DeleteWorkload&) { return DeleteWorkloadOf(context); },
              [&](const ReleaseWorkload&) {
                return ChangeWorkload(context, [&](kube::Object workload) {
                  return Released(std::move(workload), context.observed.now);
                });
              },
              [&](const SetWorkloadCondition& set) {
                return ChangeWorkload(context, [&](kube::Object workload) {
                  return WithWorkloadCondition(std::move(workload), set.type, set.value, set.reason,
                                               set.message, context.observed.now);
                });
              },
              [&](const SetReclaimableWorkers& set) {
                return ChangeWorkload(context, [&](kube::Object workload) {
                  return WithReclaimableWorkers(std::move(workload), set.workers);
                });
              },
              [&](const DeletePod& pod) { return DeletePodOf(pod, context); },
              [&](const DeleteJob&) {
                // The job as it was seen, and no other: somebody may just have decided to keep it.
                // If it has changed, this is tried again, until the cache has the change.
                return IgnoreGone(with_.client.Delete(
                    kTrainingJobKind, context.job->key,
                    {.uid = job.metadata.uid, .resource_version = context.job->resource_version}));
              }},
      action);
}

absl::Status PlanExecutor::Create(const kube::Kind& kind, const kube::Object& object,
                                  ReconcileContext& context) {
  const CreateGroup group = kind == kube::kPodKind
                                ? api::RoleFromName(kube::Label(object, api::kLabelRole))
                                : std::nullopt;
  auto made = with_.client.Create(kind, object);
  const bool unsure = MayHaveHappened(made.status());
  const bool existed = absl::IsAlreadyExists(made.status());
  const absl::Status answer = made.status();
  if (existed) made = with_.client.GetMetadata(kind, kube::KeyOf(object));
  // Watches select by this label, which a webhook may drop and a user may change. Without it the
  // object would never be seen, and its name never be free.
  const std::string label = kube::Label(object, api::kLabelJobUid);
  const bool is_hidden = made.ok() && kube::OwnerOf(*made) == context.memory.owner &&
                         kube::Label(*made, api::kLabelJobUid) != label;
  if (is_hidden && kind == kube::kServiceKind) return NoteHiddenService(context);
  const absl::Status deleted =
      is_hidden
          ? IgnoreGone(with_.client.Delete(kind, kube::KeyOf(object), {.uid = kube::Uid(*made)}))
          : absl::OkStatus();
  const std::lock_guard lock(context.mutex);
  if (unsure) context.memory.expectations.MayHaveWritten(kind, kube::KeyOf(object));
  if (!made.ok()) {
    CreateFault fault{.is_refusal = IsRefusal(answer)};
    if (kind == kube::kPodKind && absl::IsInvalidArgument(answer)) {
      fault.invalid_pod = group;
    }
    return FailCreate(made.status(), group, std::move(fault), context);
  }
  if (is_hidden) {
    return FailCreate(absl::FailedPreconditionError(
                          fmt::format("{} {} lacks the label {}={}, so the operator deletes it{}{}",
                                      kind.plural, kube::Name(*made), api::kLabelJobUid, label,
                                      deleted.ok() ? "" : ": ", std::string(deleted.message()))),
                      group, {.is_refusal = true}, context);
  }
  // The object may come from an earlier call of ours, so its owner decides, never its name alone.
  if (kube::OwnerOf(*made) == context.memory.owner) {
    const auto seen = kind == kube::kPodKind ? stores_.pods->Get(kube::KeyOf(object)) : nullptr;
    if (existed && seen && seen->uid == kube::Uid(*made) && !seen->value) {
      return FailCreate(absl::FailedPreconditionError(fmt::format("{} {} exists and cannot be read",
                                                                  kind.plural, kube::Name(*made))),
                        group, {.is_refusal = true}, context);
    }
    context.memory.expectations.Created(kube::Uid(*made), StoreOf(stores_, kind),
                                        kube::ResourceVersion(*made));
    return absl::OkStatus();
  }
  if (kind == kube::kPodKind || kind == kube::kServiceKind) {
    context.memory.conflicts.Add(kind, *made, with_.clock.SteadyNow());
    const bool hides_pods = kind == kube::kServiceKind && NeedsService(context.observed.job);
    if (hides_pods) context.creates.Stop();
    return absl::OkStatus();
  }
  return FailCreate(
      absl::AlreadyExistsError(
          fmt::format("{} {} exists and belongs to another owner", kind.plural, kube::Name(*made))),
      group, {.is_refusal = true}, context);
}

// It serves the pods as it is, and the operator has no right to delete a Service.
absl::Status PlanExecutor::NoteHiddenService(ReconcileContext& context) {
  {
    const std::lock_guard lock(context.mutex);
    context.memory.hidden_service = context.observed.job.status.attempt;
  }
  with_.events.Record(  // without the lock: it asks the API server
      kTrainingJobKind, *context.job, kube::EventType::kWarning, "LabelMissing", "Reconcile",
      fmt::format("services {} lacks the label {}={}, so the operator does not "
                  "notice if it is deleted",
                  context.job->key.name, api::kLabelJobUid, context.observed.job.metadata.uid));
  return absl::OkStatus();
}

absl::Status PlanExecutor::FailCreate(absl::Status status, CreateGroup group, CreateFault fault,
                                      ReconcileContext& context) {
  fault.message = std::string(status.message());
  context.creates.Explain(group, std::move(fault));
  return status;
}

absl::Status PlanExecutor::RecordUpdate(const kube::Kind& kind,
                                        const absl::StatusOr<kube::Object>& updated,
                                        ReconcileContext& context) {
  if (!updated.ok()) return IgnoreMoved(updated.status());
  const std::lock_guard lock(context.mutex);
  context.memory.expectations.Updated(StoreOf(stores_, kind), kube::ResourceVersion(*updated));
  return absl::OkStatus();
}

absl::Status PlanExecutor::UpdatePodGroupOf(ReconcileContext& context) {
  const auto seen = ChildOf(*stores_.pod_groups, context.job->key.name, context);
  if (!seen) return absl::OkStatus();
  const kube::Kind& kind = PodGroupKind(settings_);
  auto group = ReadAsSeen(with_.client, kind, *seen);
  if (!group.ok()) return IgnoreMoved(group.status());
  UpdatePodGroupTo(BuildPodGroup(context.observed.job, settings_), *group);
  return RecordUpdate(kind, with_.client.Update(kind, *group), context);
}

absl::StatusOr<bool> PlanExecutor::MayDelete(const kube::Kind& kind, const kube::Key& key,
                                             ReconcileContext& context) const {
  if (!IsBeingDeleted(context.observed.job)) return true;
  const auto live = with_.client.GetMetadata(kind, key);
  if (absl::IsNotFound(live.status())) return true;
  LOCKSTEP_RETURN_IF_ERROR(live.status());
  return kube::OwnerOf(*live) == context.memory.owner;
}

absl::Status PlanExecutor::DeleteChild(const kube::Kind& kind, const std::string& name,
                                       ReconcileContext& context) {
  const auto child = OfName(name, StoreOf(stores_, kind).AllOwnedBy(context.memory.owner));
  if (!child) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const bool may_delete, MayDelete(kind, child->key, context));
  if (!may_delete) return absl::OkStatus();
  return IgnoreGone(with_.client.Delete(kind, child->key, {.uid = child->uid}));
}

absl::Status PlanExecutor::Suspend(const SetSuspend& change, ReconcileContext& context) {
  const auto changed = ChangeSuspend(with_.client, *context.job, change);
  if (!changed.ok()) return IgnoreMoved(changed.status());
  {
    const std::lock_guard lock(context.mutex);  // other threads may be deleting pods
    context.wrote_job = true;
    context.memory.expectations.WroteJob(kube::ResourceVersion(*changed));
    // The number that a deleted Workload had asked for is written: a later one is the user's.
    const bool is_lost = change.suspend && !context.observed.workload && !change.counts.empty();
    if (is_lost) context.memory.worker_grant.reset();
  }
  if (!change.why.empty()) {
    with_.events.Record(kTrainingJobKind, *context.job, kube::EventType::kNormal,
                        change.suspend ? "Evicted" : "Admitted", "Reconcile", change.why);
  }
  return absl::OkStatus();
}

// What the job had asked for has been written to it before, as far as the server takes it; any
// number that it has afterwards is a user's choice.
absl::Status PlanExecutor::DeleteWorkloadOf(ReconcileContext& context) {
  const std::string name = WorkloadName(context.observed.job);
  const auto seen = ChildOf(*stores_.workloads, name, context);
  LOCKSTEP_RETURN_IF_ERROR(DeleteChild(kWorkloadKind, name, context));
  const std::lock_guard lock(context.mutex);
  if (seen) context.memory.deleted_workload = seen->uid;
  context.memory.worker_grant.reset();
  return absl::OkStatus();
}

absl::Status PlanExecutor::CreateWorkloadOf(ReconcileContext& context) {
  const auto priority = ReadPriority(with_.client, context.observed.job);
  if (!priority.ok()) {
    return FailCreate(priority.status(), {}, {.is_refusal = IsRefusal(priority.status())}, context);
  }
  return Create(kWorkloadKind, BuildWorkload(context.observed.job, settings_, *priority), context);
}

absl::Status PlanExecutor::ChangeWorkload(ReconcileContext& context,
                                          const std::function<kube::Object(kube::Object)>& change) {
  const auto seen = ChildOf(*stores_.workloads, WorkloadName(context.observed.job), context);
  if (!seen) return absl::OkStatus();
  auto live = ReadAsSeen(with_.client, kWorkloadKind, *seen);
  if (!live.ok()) return IgnoreMoved(live.status());
  return RecordUpdate(kWorkloadKind,
                      with_.client.UpdateStatus(kWorkloadKind, change(*std::move(live))), context);
}

absl::Status PlanExecutor::DeletePodOf(const DeletePod& pod, ReconcileContext& context) {
  const kube::Key key{context.observed.job.metadata.namespace_name, pod.name};
  LOCKSTEP_ASSIGN_OR_RETURN(const bool may_delete, MayDelete(kube::kPodKind, key, context));
  if (!may_delete) return absl::OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(
      IgnoreGone(pod.force ? with_.client.ForceDelete(kube::kPodKind, key, {.uid = pod.uid})
                           : with_.client.Delete(kube::kPodKind, key, {.uid = pod.uid})));
  const std::lock_guard lock(context.mutex);
  context.memory.expectations.Deleted(pod.uid, key);
  return absl::OkStatus();
}

}  // namespace lockstep::controller
