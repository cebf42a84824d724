// What a Kubernetes API server checks, fills in and keeps when a client writes an object. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/kube/object.h"

namespace lockstep::local {

// A pod's terminationGracePeriodSeconds where it sets none.
inline constexpr std::int64_t kDefaultGraceSeconds = 30;

// Returns the member, a number of seconds, or kDefaultGraceSeconds if there is none. It is limited
// to 0 to 136 years: so it can be added to a time.
std::int64_t GraceMember(const kube::Object& object, const char* key);

// Names a call in an error: "get pods default/a".
std::string DescribeCall(const char* verb, const kube::Kind& kind, const kube::Key& key);

// True if the kind's status is a subresource: only UpdateStatus changes it.
bool HasStatus(const kube::Kind& kind);
bool HasFinalizers(const kube::Object& object);

// Returns Ok if a server accepts the object as a new one of this kind. Otherwise InvalidArgument,
// which names the field.
absl::Status CheckNew(const kube::Kind& kind, const kube::Object& object);

// What the server decides about a new object.
struct ServerFields {
  std::string uid;
  Time time;
  std::string node_name;  // for a pod; empty: it is not bound to a node yet
};
// Returns the object that a create stores. Requires CheckNew and a name.
kube::Object CreatedObject(const kube::Kind& kind, kube::Object object, const ServerFields& fields);

// Returns the object that an update of `old` stores: `update` with the metadata and status that
// clients cannot change, and the next generation if the spec has changed. InvalidArgument: a pod's
// spec may not change.
absl::StatusOr<kube::Object> UpdatedObject(const kube::Kind& kind, const kube::Object& old,
                                           kube::Object update);

// Returns `old` with the status of `update`.
kube::Object WithStatusOf(const kube::Object& update, kube::Object old);

// Returns the grace period of a pod's deletion in seconds: 0 if no kubelet has the pod or it has
// ended.
std::int64_t GraceSeconds(const kube::Object& pod);

// Returns the object as it reads once its deletion has begun: with this grace period, and the time
// at which it ends unless the object had one already.
kube::Object TerminatingObject(kube::Object object, Time now, std::int64_t grace_seconds);

}  // namespace lockstep::local
