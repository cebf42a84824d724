// How many GPUs a container asks for.
#pragma once

#include "api/v1/training_job.h"

namespace lockstep::api {

inline constexpr int kMostGpus = 256;  // per pod

// Returns the container's limit of nvidia.com/gpu, from 0 to kMostGpus; 0 if it has none. A limit
// of parts of GPUs (nvidia.com/gpu.shared, nvidia.com/mig-…) instead counts as one GPU, whatever
// its number: CUDA shows a process only one slice, and several shares may be of the same GPU.
// Kubernetes accepts quantities as numbers and as strings.
int GpusOf(const Json& container);

}  // namespace lockstep::api
