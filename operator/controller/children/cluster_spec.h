// TF_CONFIG, as TensorFlow's TFConfigClusterResolver reads it.
#pragma once

#include <mutex>
#include <string>

#include "operator/controller/children/addresses.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

// The members of a job and their addresses. Thread-safe.
class ClusterSpec {
 public:
  // Both arguments must outlive it.
  ClusterSpec(const api::TrainingJob& job, const Addresses& addresses);

  // Returns TF_CONFIG for `replica` as compact JSON. Only evaluators see the evaluator (TensorFlow
  // 2 hangs otherwise). Workers and parameter servers of an elastic ParameterServer job get the
  // sparse form, in which a worker sees only itself among the workers, so that others may come and
  // go.
  //
  // The shared part is serialized once, when a replica first asks for it: it grows with the job (35
  // KB for 1,000 workers), and the replicas of a very large job may not need it.
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
  mutable Text trainers_, evaluators_;  // the cluster as each of them sees it
};

}  // namespace lockstep::controller
