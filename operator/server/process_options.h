// The options of the operator's parts that follow from its flags and from where it runs.
#pragma once

#include "operator/controller/job_controller.h"
#include "operator/kube/rest/rest_config.h"
#include "operator/kube/runtime/leader_elector.h"
#include "operator/metrics/operator_metrics.h"
#include "operator/server/flags.h"

namespace lockstep::server {

// Outside a pod the operator has no namespace that a NetworkPolicy could admit: the namespace of a
// kubeconfig's context is not its own. What is passed must outlive the controller.
controller::JobControllerOptions ControllerOptions(const Flags& flags,
                                                   const kube::RestConfig& cluster,
                                                   controller::JobTokens* tokens,
                                                   controller::ProgressReports& reports,
                                                   metrics::OperatorMetrics& metrics);

// Each call returns another identity.
kube::LeaderElectionOptions ElectionOptions(const Flags& flags, const kube::RestConfig& cluster);

}  // namespace lockstep::server
