// What people are told of a pod's failure. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "operator/controller/rules/parts/pod_failures.h"

namespace lockstep::controller {

// The reason, of status.failure and of the condition Running, for an init container's failure.
inline constexpr char kInitContainerFailed[] = "InitContainerFailed";
// "init container fetch of j-worker-0 exited with code 3 (OOMKilled)". Requires: it has failed.
std::string EndOfInit(const Blocker& init, std::string_view pod);

// " on node n"; empty if the pod has none.
std::string OnNode(const std::string& node);
// "worker-1 on node n exited with code 137 (OOMKilled)"
std::string Describe(const PodFailure& failure);
// " in 10s", until a successor is created; empty if it is not awaited.
std::string DelayText(Duration delay);
// Returns the entry for status.failure, with texts cut to what the schema allows.
api::Failure FailureOf(const PodFailure& failure);

}  // namespace lockstep::controller
