// How many GPUs and other accelerators a container asks for.
#pragma once

#include "api/v1/training_job.h"

namespace lockstep::api {

inline constexpr int kMostGpus = 256;  // per pod

// Returns the container's limit of nvidia.com/gpu, capped at kMostGpus. If that limit is absent or
// 0, any limit of a part of a GPU (nvidia.com/gpu.shared, nvidia.com/mig-…) counts as one GPU,
// however large it is: CUDA shows a process only one slice, and several shares may belong to the
// same GPU. Otherwise returns 0. Kubernetes accepts quantities as numbers and as strings.
int GpusOf(const Json& container);

// Returns the number of devices that PyTorch finds in the container, capped at kMostGpus: GpusOf,
// or without NVIDIA's GPUs the limits of amd.com/gpu (or of the partitions that AMD's device plugin
// names, amd.com/cpx_nps4 and others), gpu.intel.com/i915, gpu.intel.com/xe and habana.ai/gaudi.
// What a container gets by resources.claims is not known here.
int AcceleratorsOf(const Json& container);

}  // namespace lockstep::api
