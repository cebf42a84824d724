// Generates images whose classes a small model learns within a few hundred steps.
#pragma once

#include <cstddef>
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

// Returns true if so many samples are generated once and kept.
bool KeepsSynthetic(std::size_t sample_bytes, std::int64_t samples, bool cache);

// The bytes of one split of so many samples: the patterns of its classes, and the samples if they
// are kept.
std::size_t BytesOfSynthetic(std::int64_t classes, std::size_t sample_bytes, std::int64_t samples,
                             bool cache);

}  // namespace lockstep::train
