// What the rules see of a job in a queue of Kueue's.
#pragma once

#include "operator/controller/children/kueue.h"
#include "tests/operator/controller/queued_job.h"
#include "tests/support/observed_builder.h"

namespace lockstep::testing {

inline controller::ObservedWorkload Waiting(const api::TrainingJob& job) {
  controller::ObservedWorkload workload;
  workload.templates = controller::TemplatesHash(job);
  workload.queue = controller::QueueName(job);
  workload.max_execution_time = controller::MaxExecutionTime(job);
  for (const auto& [role, spec] : job.spec.replica_specs) workload.counts[role] = spec.replicas;
  return workload;
}

inline controller::ObservedWorkload Admitted(const api::TrainingJob& job, int workers) {
  controller::ObservedWorkload workload = Waiting(job);
  workload.reserved = workload.admitted = true;
  workload.granted[api::Role::kWorker].count = workers;
  return workload;
}

inline Seen WithKueue(const JobBuilder& job) {
  return Seen(job).With([](controller::Observed& observed) { observed.settings = kKueue; });
}

}  // namespace lockstep::testing
