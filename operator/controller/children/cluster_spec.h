// TF_CONFIG, as TensorFlow's TFConfigClusterResolver reads it.
#pragma once

#include <mutex>
#include <string>

#include "operator/controller/children/addresses.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

// Who is in a job, and where. Thread-safe.
class ClusterSpec {
 public:
  // Both arguments outlive it.
  ClusterSpec(const api::TrainingJob& job, const Addresses& addresses);

  // Compact JSON as `replica` sees it. The evaluator stands in its own view only (TensorFlow 2
  // hangs otherwise). Workers and parameter servers of an elastic ParameterServer job get the
  // sparse form: of the workers only themselves, so that the others may come and go.
  //
  // What replicas share is written once, when the first of them asks for it: it is as long as the
  // job is large (35 KB for 1,000 workers), and no replica of a very large job may want it.
  std::string TfConfig(const Replica& replica) const;

  const api::TrainingJob& job() const { return job_; }
  const Addresses& addresses() const { return addresses_; }

 private:
  struct Text {
    std::once_flag written;
    std::string json;
  };

  const std::string& FullCluster(bool with_evaluators) const;

  const api::TrainingJob& job_;
  const Addresses& addresses_;
  mutable Text trainers_, evaluators_;  // the cluster as they see it
};

}  // namespace lockstep::controller
