// PlanExecutor's creates of a job's guards: the token's Secret and the NetworkPolicy.
#include "base/log.h"
#include "base/status.h"
#include "operator/controller/children/build_network_policy.h"
#include "operator/controller/children/build_token_secret.h"
#include "operator/controller/plan_executor.h"
#include "operator/controller/rules/parts/guards.h"
#include "operator/controller/state/call_outcome.h"
#include "operator/controller/state/kinds.h"
#include "operator/kube/server_errors.h"

namespace lockstep::controller {

absl::Status PlanExecutor::CreateTokenSecretOf(bool is_repeat, ReconcileContext& context) {
  const api::TrainingJob& job = context.observed.job;
  const bool has_bearer = HasReportBearer(context.observed);
  TokenGuard& guard = context.memory.token_secret;
  if (guard.has_bearer != has_bearer) guard = {{}, has_bearer};
  if (absl::Status loaded = with_.tokens->Load(); !loaded.ok()) {
    return RecordGuard(loaded, is_repeat, guard, context);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string token, with_.tokens->TextFor(job.metadata.uid));
  const kube::Object secret = BuildTokenSecret(job, token, has_bearer);
  return RecordGuard(with_.client.Create(kube::kSecretKind, secret).status(), is_repeat, guard,
                     context);
}

absl::Status PlanExecutor::CreateNetworkPolicyOf(bool is_repeat, ReconcileContext& context) {
  const kube::Object policy = BuildNetworkPolicy(context.observed.job, settings_);
  return RecordGuard(with_.client.Create(kNetworkPolicyKind, policy).status(), is_repeat,
                     context.memory.network_policy, context);
}

// The name contains the job's uid, so an existing object of that name is ours, or was created first
// by somebody with the right to do so in the job's namespace (see docs/security.md). If the
// response to a create is lost, the same object is created again. A create may be rejected although
// the object exists: because the operator has lost the permission, or because a quota, which is
// checked before the name, is full. In those cases existing pods (`is_repeat`) or this process's
// memory (`guard.exists`) show that the object exists.
absl::Status PlanExecutor::RecordGuard(const absl::Status& answer, bool is_repeat, Guard& guard,
                                       ReconcileContext& context) {
  const bool exists = answer.ok() || absl::IsAlreadyExists(answer);
  const bool is_known = (is_repeat && absl::IsPermissionDenied(answer)) ||
                        (guard.exists && kube::ExceedsQuota(answer));
  if (is_known) {
    LogWarning("cannot create the job's guard again; it exists, so pods are created",
               {{"error", std::string(answer.message())}});
  }
  const std::lock_guard lock(context.mutex);
  if (!exists && !is_known) {
    return FailCreate(answer, {}, {.is_refusal = IsRefusal(answer)}, context);
  }
  guard.exists = guard.exists || exists;
  guard.attempt = context.observed.job.status.attempt;
  return absl::OkStatus();
}

}  // namespace lockstep::controller
