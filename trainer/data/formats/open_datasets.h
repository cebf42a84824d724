// Opens the data sets of a job, and says before that what they will keep in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/core/dtype.h"
#include "trainer/core/shape.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

// Opens the training set and, if `with_test`, the test set: the files', or with
// spec.validation_fraction above 0 two parts of the training files, which are opened once. `seed`
// draws the parts, and synthetic samples. With spec.cache = false, samples are read (or generated)
// on demand; a loader does so ahead of time on a thread if spec.prefetch > 0. NotFound and DataLoss
// name the file, what was found and what is expected. InvalidArgument names the field.
absl::StatusOr<TrainAndTest> OpenDatasets(const api::DatasetSpec& spec, bool with_test,
                                          std::uint64_t seed,
                                          LabelKind labels = LabelKind::kClasses);

// Opens only the test set, without the training files unless it is a part of them. Errors as
// above.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTestSet(const api::DatasetSpec& spec,
                                                     std::uint64_t seed, LabelKind labels);

// Returns the bytes that a data set of `samples` samples of this shape keeps in memory once all
// have been read. Mapped files do not count; files are assumed not to be gzip.
std::size_t BytesKept(const api::DatasetSpec& spec, const Shape& sample, DType element,
                      std::int64_t samples);

// Returns what InMemory() will return for a data set of `samples` samples of this shape once it is
// open.
bool WillBeInMemory(const api::DatasetSpec& spec, const Shape& sample, DType element,
                    std::int64_t samples);

// The type of the samples' elements; nullopt if only the files say it.
std::optional<DType> ElementOf(const api::DatasetSpec& spec);

}  // namespace lockstep::train
