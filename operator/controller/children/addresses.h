// Where the replicas of a job reach each other in a cluster.
#pragma once

#include <string>

#include "api/v1/training_job.h"
#include "operator/controller/state/address.h"

namespace lockstep::controller {

// Addresses of the form <pod>.<job>.<namespace>.svc[.<domain>], port ClusterPort(). The headless
// Service creates these names.
class DnsAddresses final : public Addresses {
 public:
  // A non-empty `domain`, e.g. "cluster.local", is appended; pods' resolvers add it by themselves.
  explicit DnsAddresses(std::string domain = "");
  Address Of(const api::TrainingJob& job, api::Role role, int index) const override;

 private:
  std::string domain_;
};

// Returns the port of the role's main container that is named `tfjob-port` or `cluster`, else 2222.
int ClusterPort(const api::TrainingJob& job, api::Role role);

}  // namespace lockstep::controller
