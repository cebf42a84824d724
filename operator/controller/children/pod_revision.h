// Digests of what pods are told when they are created, so that a later edit of the job is detected.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/v1/training_job.h"

namespace lockstep::controller {

// The shape of an Independent job: its replicas have no peers, so their number does not matter.
inline constexpr std::string_view kIndependentShape = "independent";
// The shape of an elastic job whose pods need not know how many workers it has: one with
// ParameterServer (the sparse form) or restartScope Pod (the program finds its peers by itself, as
// torchrun does).
inline constexpr std::string_view kElasticShape = "elastic";

// Returns the replica counts that every replica's cluster spec reflects: "chief=1,worker=2". Jobs
// that are not elastic have them too, since their size changes while they are suspended, which the
// operator may not have seen. Returns kIndependentShape or kElasticShape where no spec reflects
// them.
std::string ClusterShape(const api::TrainingJob& job);

// Returns the number of workers in `shape` if the job has that shape with another number of
// workers, or with its own.
std::optional<int> WorkersOfShape(const api::TrainingJob& job, std::string_view shape);

// Returns the other replica counts that the pods of a job with kElasticShape are told, which only a
// suspended job can change: the leader depends on the chief, and sparse cluster specs list the
// parameter servers. nullopt for other shapes, which have them.
std::optional<std::string> ElasticPeers(const api::TrainingJob& job);

// "1:4", as a pod notes the bounds that it is told (TellsElasticBounds).
std::string WriteElasticBounds(const api::ElasticSpec& bounds);
// Returns nullopt if `note` is no such text.
std::optional<api::ElasticSpec> ReadElasticBounds(std::string_view note);

// Returns a hash that changes with what the role's pods are created from: template, `training`,
// `strategy`. It begins with the scheme that it was computed by.
std::string SpecHash(const api::TrainingJob& job, api::Role role);
// Returns true if the pod that has `hash` was created by an operator with the present scheme.
// Otherwise what the pod was created from is unknown: its hash differs from SpecHash even if nobody
// has edited the job.
bool IsComparable(std::string_view hash);

}  // namespace lockstep::controller
