// The fields of `status`, which the operator writes.
#pragma once

#include "api/v1/json_fields.h"
#include "api/v1/variants.h"

namespace lockstep::api {

void Fields(auto& visit, Like<Condition> auto& condition) {
  visit.RequiredField("type", condition.type);
  visit.RequiredField("status", condition.status);
  visit.Field("observedGeneration", condition.observed_generation);
  visit.Field("lastTransitionTime", condition.last_transition_time);
  visit.RequiredField("reason", condition.reason);
  visit.RequiredField("message", condition.message);
}

void Fields(auto& visit, Like<ReplicaStatus> auto& replicas) {
  visit.Field("desired", replicas.desired);
  visit.Field("active", replicas.active);
  visit.Field("ready", replicas.ready);
  visit.Field("succeeded", replicas.succeeded);
  visit.Field("failed", replicas.failed);
}

void Fields(auto& visit, Like<RestartCounts> auto& restarts) {
  visit.Field("application", restarts.application);
  visit.Field("disruption", restarts.disruption);
  visit.Field("sinceProgress", restarts.since_progress);
  visit.Field("evaluator", restarts.evaluator);
}

void Fields(auto& visit, Like<Progress> auto& progress) {
  visit.Field("step", progress.step, AtLeast(0));
  visit.Field("totalSteps", progress.total_steps, AtLeast(0));
  visit.Field("epoch", progress.epoch, NotBelow(0));
  visit.Field("loss", progress.loss);
  visit.Field("accuracy", progress.accuracy);
  visit.Field("testAccuracy", progress.test_accuracy);
  visit.Field("testLoss", progress.test_loss);
  visit.Field("meanAbsoluteError", progress.mean_absolute_error);
  visit.Field("testMeanAbsoluteError", progress.test_mean_absolute_error);
  visit.Field("testMetrics", progress.test_metrics);
  visit.Field("examplesPerSecond", progress.examples_per_second);
  visit.Field("goodput", progress.goodput);
  visit.Field("estimatedRemainingSeconds", progress.estimated_remaining_seconds);
  visit.Field("lastCheckpointStep", progress.last_checkpoint_step, AtLeast(-1));
  visit.Field("samplesLost", progress.samples_lost, AtLeast(0));
  visit.Field("samplesDuplicated", progress.samples_duplicated, AtLeast(0));
  visit.Field("updateTime", progress.update_time);
}

void Fields(auto& visit, Like<VariantResult> auto& result) {
  visit.Field("index", result.index, IntegerRange{0, kMostVariants - 1});
  visit.Field("name", result.name);
  visit.Field("diverged", result.diverged);
  visit.Field("step", result.step, AtLeast(0));
  visit.Field("loss", result.loss);
  visit.Field("accuracy", result.accuracy);
  visit.Field("testLoss", result.test_loss);
  visit.Field("testAccuracy", result.test_accuracy);
  visit.Field("meanAbsoluteError", result.mean_absolute_error);
  visit.Field("testMeanAbsoluteError", result.test_mean_absolute_error);
  visit.Field("testMetrics", result.test_metrics);
}

void Fields(auto& visit, Like<Failure> auto& failure) {
  visit.Field("role", failure.role);
  visit.Field("index", failure.index);
  visit.Field("node", failure.node);
  visit.Field("exitCode", failure.exit_code);
  visit.Field("reason", failure.reason);
  visit.Field("message", failure.message);
}

void Fields(auto& visit, Like<TrainingJobStatus> auto& status) {
  visit.Field("state", status.state);
  visit.Field("conditions", status.conditions);
  visit.Field("observedGeneration", status.observed_generation);
  visit.Field("startTime", status.start_time);
  visit.Field("completionTime", status.completion_time);
  visit.Field("nextRetryTime", status.next_retry_time);
  visit.Field("attempt", status.attempt);
  visit.Field("completedIndexes", status.completed_indexes);
  visit.Field("completedHelpers", status.completed_helpers);
  visit.Field("startedRoles", status.started_roles);
  visit.Field("runningRoles", status.running_roles);
  visit.Field("groupWorkers", status.group_workers);
  visit.Field("countedPods", status.counted_pods);
  visit.Field("selector", status.selector);
  visit.Field("readyReplicas", status.ready_replicas);
  visit.Field("restartCount", status.restart_count);
  visit.Field("replicaStatuses", status.replica_statuses);
  visit.Field("restarts", status.restarts);
  visit.Field("progress", status.progress);
  visit.Field("variants", status.variants);
  visit.Field("failure", status.failure);
}

}  // namespace lockstep::api
