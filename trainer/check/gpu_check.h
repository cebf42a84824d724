// `lockstep-trainer gpu-check` says whether a device computes right, and how fast.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/check/check_report.h"
#include "trainer/check/check_training.h"

namespace lockstep::train {

struct GpuCheckOptions {
  std::string backend = "cuda";
  int device = 0;   // see BackendOptions
  int threads = 0;  // of the host; 0: ReplicaThreads(1)
  // True: without the shapes of ResNet-50 and its training steps, and each measurement is shorter.
  bool quick = false;
  bool benchmarks = true;  // false: it only checks
};

// Errors: as for OpenDevice.
absl::StatusOr<CheckReport> RunGpuCheck(const GpuCheckOptions& options);
// The same of back ends that `make_backend` makes; options.backend and options.device say nothing.
absl::StatusOr<CheckReport> RunGpuCheck(const GpuCheckOptions& options,
                                        const BackendFactory& make_backend);

// The verb's exit code: 0 if the report is right, else 1.
int ExitCode(const CheckReport& report);

}  // namespace lockstep::train
