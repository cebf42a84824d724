// Converts TrainingJob to and from JSON: metadata, spec and status.
#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/status_fields.h"
#include "api/v1/training_fields.h"

namespace lockstep::api {

void Fields(auto& visit, Like<OwnerReference> auto& owner) {
  visit.Field("apiVersion", owner.api_version);
  visit.Field("kind", owner.kind);
  visit.Field("name", owner.name);
  visit.Field("uid", owner.uid);
  visit.Field("controller", owner.controller);
}

void Fields(auto& visit, Like<ObjectMeta> auto& metadata) {
  visit.Field("name", metadata.name);
  visit.Field("namespace", metadata.namespace_name);
  visit.Field("uid", metadata.uid);
  visit.Field("resourceVersion", metadata.resource_version);
  visit.Field("generation", metadata.generation);
  visit.Field("labels", metadata.labels);
  visit.Field("annotations", metadata.annotations);
  visit.Field("ownerReferences", metadata.owner_references);
  visit.Field("creationTimestamp", metadata.creation_time);
  visit.Field("deletionTimestamp", metadata.deletion_time);
}

void Fields(auto& visit, Like<DependencySpec> auto& dependency) {
  visit.Field("role", dependency.role);
  visit.Field("status", dependency.status);
}

void Fields(auto& visit, Like<ReplicaSpec> auto& replica) {
  visit.Field("replicas", replica.replicas, IntegerRange{0, kMaxReplicas});
  visit.Field("dependsOn", replica.depends_on, ListRange{1, 3});
  visit.Field("restartPolicy", replica.restart_policy);
  visit.Field("template", replica.tmpl);
}

void Fields(auto& visit, Like<ElasticSpec> auto& elastic) {
  visit.Field("minReplicas", elastic.min_replicas, IntegerRange{1, kMaxReplicas});
  visit.Field("maxReplicas", elastic.max_replicas, IntegerRange{1, kMaxReplicas});
}

void Fields(auto& visit, Like<SchedulingPolicySpec> auto& scheduling) {
  visit.Field("minAvailable", scheduling.min_available, IntegerRange{0, 4 * kMaxReplicas});
  visit.Field("queue", scheduling.queue);
  visit.Field("priorityClass", scheduling.priority_class);
  visit.Field("minResources", scheduling.min_resources);
  visit.Field("scheduleTimeoutSeconds", scheduling.schedule_timeout_seconds,
              IntegerRange{1, kMaxSeconds});
}

void Fields(auto& visit, Like<ExitCodesSpec> auto& codes) {
  visit.Field("operator", codes.op);
  visit.Field("values", codes.values, SetOf(1, 255), IntegerRange{1, 255});
}

void Fields(auto& visit, Like<PodFailureRuleSpec> auto& rule) {
  visit.Field("action", rule.action);
  visit.Field("roles", rule.roles, SetOf(1, 3));
  visit.Field("onExitCodes", rule.on_exit_codes);
  visit.Field("onReasons", rule.on_reasons, SetOf(1, 32), TextRange{1, 128});
}

void Fields(auto& visit, Like<PodFailurePolicySpec> auto& policy) {
  visit.Field("rules", policy.rules, ListRange{1, 20});
}

void Fields(auto& visit, Like<RunPolicySpec> auto& policy) {
  visit.Field("cleanPodPolicy", policy.clean_pod_policy);
  visit.Field("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished,
              IntegerRange{0, kMaxInt32});
  visit.Field("activeDeadlineSeconds", policy.active_deadline_seconds, IntegerRange{1, kMaxInt32});
  visit.Field("pendingDeadlineSeconds", policy.pending_deadline_seconds,
              IntegerRange{1, kMaxInt32});
  visit.Field("progressDeadlineSeconds", policy.progress_deadline_seconds,
              IntegerRange{10, kMaxInt32});
  visit.Field("backoffLimit", policy.backoff_limit, AtLeast(0));
  visit.Field("schedulingPolicy", policy.scheduling_policy);
  visit.Field("podFailurePolicy", policy.pod_failure_policy);
}

void Fields(auto& visit, Like<TrainingJobSpec> auto& spec) {
  visit.Field("suspend", spec.suspend);
  visit.Field("managedBy", spec.managed_by);
  visit.Field("strategy", spec.strategy);
  visit.Field("training", spec.training);
  visit.Field("replicaSpecs", spec.replica_specs);
  visit.Field("elastic", spec.elastic);
  visit.Field("restartScope", spec.restart_scope);
  visit.Field("successPolicy", spec.success_policy);
  visit.Field("networkPolicy", spec.network_policy);
  visit.Field("jobToken", spec.job_token);
  visit.Field("runPolicy", spec.run_policy);
}

void Fields(auto& visit, Like<TrainingJob> auto& job) {
  visit.Constant("apiVersion", kApiVersion);
  visit.Constant("kind", kKind);
  visit.LenientField("metadata", job.metadata);
  visit.Field("spec", job.spec);
  visit.LenientField("status", job.status);
}

namespace {

// Sets the type of a strategy that names none, once the roles are known.
absl::StatusOr<TrainingJob> WithType(const Json& json, absl::StatusOr<TrainingJob> job) {
  if (!job.ok() || !job->spec.strategy) return job;
  const Json& strategy = json.at("spec").at("strategy");
  const auto type = strategy.find("type");
  const bool is_absent = type == strategy.end() || type->is_null();
  if (is_absent) job->spec.strategy->type = DefaultStrategy(job->spec);
  return job;
}

}  // namespace

absl::StatusOr<TrainingJob> TrainingJobFromJson(const Json& json) {
  return WithType(json, ReadDocument<TrainingJob>(json, ""));
}

absl::StatusOr<TrainingJob> TrainingJobFromServer(const Json& json) {
  return WithType(json, ReadDocument<TrainingJob>(json, "", UnknownFields::kIgnoreAndClamp));
}

Json TrainingJobToJson(const TrainingJob& job) {
  return FieldWriter::WriteStruct(job);
}

}  // namespace lockstep::api
