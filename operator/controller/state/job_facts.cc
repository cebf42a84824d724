#include "operator/controller/state/job_facts.h"

#include <string>

namespace lockstep::controller {
namespace {

// spec.managedBy of our jobs, if it is not empty.
constexpr char kManagedBy[] = "training.lockstep.dev/operator";

}  // namespace

bool IsBeingDeleted(const api::TrainingJob& job) {
  return job.metadata.deletion_time.has_value();
}

bool IsForeign(const api::TrainingJob& job) {
  const std::string& managed_by = job.spec.managed_by;
  return !managed_by.empty() && managed_by != kManagedBy;
}

}  // namespace lockstep::controller
