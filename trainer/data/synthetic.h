// Made-up images whose classes a small model tells apart after a few hundred steps.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Sample i has label i % classes and the pixels of its class' pattern plus noise: a pure function
// of (seed, split, i). Both splits share the patterns. `cache`: samples are made once and kept, up
// to 64 MiB. InvalidArgument names the field of `spec` that is out of range.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSynthetic(const api::SyntheticSpec& spec, Split split,
                                                       std::uint64_t seed, bool cache);

}  // namespace lockstep::train
