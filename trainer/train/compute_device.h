// Where a process computes: a GPU of its pod, or the CPU.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

// False for a pod that asks for none, and for workers of parameter servers.
bool ComputesOnGpu(const Identity& identity);

// The processes of a pod that asks for GPUs take them in turns, in the order of their local ranks;
// those of other pods compute on the CPU with `threads`, and so do workers of parameter servers.
// `files`: where a container's device files are. Its runtime makes them when the container starts,
// so a GPU that fails later keeps its file. Slices of one GPU, and shares of its time, have one
// file together, and a process sees one slice at most: more GPUs than that were never there.
BackendOptions DeviceOf(const Identity& identity, int threads,
                        const std::filesystem::path& files = "/dev");

using BackendMaker = std::function<std::unique_ptr<Backend>(const BackendOptions& options)>;

// `make`, which is MakeBackend. InvalidArgument: the device or a library is not there, or this
// build has nothing that runs on it, which no restart changes. Unavailable: the driver refuses it
// at present, or IsDeviceGone. ResourceExhausted: at present it has no memory for the libraries and
// the kernels. `falls_back_to_cpu`: a build that has nothing for the device, as the image for CPUs,
// gives the CPU's, with a warning.
absl::StatusOr<std::unique_ptr<Backend>> OpenDevice(const BackendOptions& options,
                                                    bool falls_back_to_cpu,
                                                    const BackendMaker& make = &MakeBackend);

// True for an error of OpenDevice that only a new pod can end: this one has lost a GPU.
bool IsDeviceGone(const absl::Status& status);

}  // namespace lockstep::train
