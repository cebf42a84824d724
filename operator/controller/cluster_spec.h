// TF_CONFIG, as TensorFlow's TFConfigClusterResolver reads it.
#pragma once

#include <string>

#include "operator/controller/addresses.h"
#include "operator/controller/replicas.h"

namespace lockstep::controller {

// Who is in a job, and where. Thread-safe.
class ClusterSpec {
 public:
  // What the replicas share is written here, once: it is as long as the job is large (35 KB for
  // 1,000 workers), and each of them gets it. Both arguments outlive it.
  ClusterSpec(const api::TrainingJob& job, const Addresses& addresses);

  // Compact JSON as `replica` sees it. The evaluator stands in its own view only (TensorFlow 2
  // hangs otherwise). Workers and parameter servers of an elastic ParameterServer job get the
  // sparse form: of the workers only themselves, so that the others may come and go.
  std::string TfConfig(const Replica& replica) const;

  const api::TrainingJob& job() const { return job_; }
  const Addresses& addresses() const { return addresses_; }

 private:
  const api::TrainingJob& job_;
  const Addresses& addresses_;
  std::string trainers_, evaluators_;  // the cluster as they see it
};

}  // namespace lockstep::controller
