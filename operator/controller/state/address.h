// Where a job's replicas reach each other. This is all that differs in what pods are told between a
// cluster and a single machine.
#pragma once

#include <string>

#include "api/v1/training_job.h"

namespace lockstep::controller {

struct Address {
  std::string host;
  int port = 0;
  std::string HostPort() const;  // "mnist-worker-0.mnist.default.svc:2222"
  bool operator==(const Address&) const = default;
};

// Pure and thread-safe. The same replica of the same job always has the same address, before its
// pod exists and after the pod was replaced.
class Addresses {
 public:
  virtual ~Addresses() = default;
  virtual Address Of(const api::TrainingJob& job, api::Role role, int index) const = 0;
};

// Returns "<job>-<role>-<index>".
std::string PodName(const api::TrainingJob& job, api::Role role, int index);

}  // namespace lockstep::controller
