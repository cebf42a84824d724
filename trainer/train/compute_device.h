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

// Returns the device that this process computes on. In a pod that asks for GPUs, process n takes
// GPU n modulo their number. Processes of other pods and workers of parameter servers compute on
// the CPU with `threads` threads; logs a warning if that leaves GPUs idle. `files`: where a
// container's device files are. Its runtime makes them when the container starts, so a GPU that
// fails later keeps its file. Slices of one GPU, and shares of its time, have one file together,
// and a process sees one slice at most: more GPUs than that were never there.
BackendOptions DeviceOf(const Identity& identity, int threads,
                        const std::filesystem::path& files = "/dev");

using BackendMaker = std::function<std::unique_ptr<Backend>(const BackendOptions& options)>;

// Makes the back end by `make` (MakeBackend, except in tests). InvalidArgument: the device or a
// library is missing, or this build has nothing that runs on it; no restart changes that.
// Unavailable: the driver refuses the device at present, or the pod has lost it (see IsDeviceGone).
// ResourceExhausted: the device has no memory for the libraries and kernels at present. With
// `falls_back_to_cpu`, a build without code for the device, such as the image for CPUs, returns the
// CPU's back end and logs a warning.
absl::StatusOr<std::unique_ptr<Backend>> OpenDevice(const BackendOptions& options,
                                                    bool falls_back_to_cpu,
                                                    const BackendMaker& make = &MakeBackend);

// True for an error of OpenDevice that only a new pod can end: this one has lost a GPU.
bool IsDeviceGone(const absl::Status& status);

}  // namespace lockstep::train
