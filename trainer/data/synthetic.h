// Generates images whose classes a small model learns within a few hundred steps.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Sample i has label i % classes, and its pixels are its class's pattern plus noise: a pure
// function of (seed, split, i). Both splits share the patterns. With `cache`, samples are generated
// once and kept if they fit into 64 MiB. With LabelKind::kNumbers, a label is one number, its class
// divided by `classes`. InvalidArgument names the field that is out of range.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSynthetic(const api::SyntheticSpec& spec, Split split,
                                                       std::uint64_t seed, bool cache,
                                                       LabelKind labels = LabelKind::kClasses);

}  // namespace lockstep::train
