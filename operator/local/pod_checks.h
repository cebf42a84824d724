// What the pods of a job must be like to run on one machine, and what their containers may use: the
// same for `lockstep run` and `lockstep plan`. Pure, except for CheckStarts, which is for `run`
// alone: a plan may be made for a cluster, which has objects that are not in the job's file.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "operator/kube/client.h"
#include "operator/kube/object.h"
#include "operator/local/container_process.h"
#include "operator/local/volumes.h"

namespace lockstep::local {

// Says why pods cannot run here, before any is created: checks their volumes, mounts and limits,
// which are the same for all pods of a role, and that each folder in `options` is that of some
// volume. InvalidArgument names the pod, the volume or the field.
absl::Status CheckPods(const std::vector<kube::Object>& pods, const VolumeOptions& options);

// Says why pods that CheckPods has accepted cannot be started with the objects that `client` has:
// a container without a command, an absent ConfigMap, Secret or key, an unknown field of the pod,
// what CheckSources finds, and a main container's program or workingDir that this machine does not
// have, unless it lies in a volume or the pod has init containers, which may make it. No restart
// would change any of it. InvalidArgument names the pod and the container or the volume.
absl::Status CheckStarts(const std::vector<kube::Object>& pods, const VolumeOptions& options,
                         const HostFacts& host, kube::Client& client);

// The limits of one of the pod's containers: thousandths of a core, and bytes. Nullopt: it has
// none, or 0, which Kubernetes, too, takes for none. InvalidArgument names the field of the job,
// what was found and what is expected.
absl::StatusOr<std::optional<std::int64_t>> CpuLimit(const kube::Object& pod,
                                                     const kube::Object& container);
absl::StatusOr<std::optional<std::int64_t>> MemoryLimit(const kube::Object& pod,
                                                        const kube::Object& container);

// True if a container of one of the pods, init containers included, has a limit of GPUs.
bool AsksForGpus(const std::vector<kube::Object>& pods);

// Whether the pod, if it sets no limit, may use all cores instead of a share: a parameter server
// works while a worker waits for it, so it needs no core of its own, and that worker's is idle.
bool RunsOnAllCores(const kube::Object& pod);
// How many of the job's pods share the cores evenly if they set no limit: see RunsOnAllCores.
int PodsThatShareCores(const api::TrainingJob& job);

}  // namespace lockstep::local
