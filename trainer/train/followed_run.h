// What an Evaluator learns of the run that it follows from that run's checkpoints, so that it needs
// none of the training data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/core/dtype.h"
#include "trainer/core/shape.h"
#include "trainer/data/dataset.h"

namespace lockstep::train {

struct FollowedRun {
  std::int64_t examples = 0;          // of the training set
  Shape input;                        // of a sample
  std::optional<DType> element = {};  // of a sample; nullopt: the checkpoint does not say
  std::int64_t outputs = 0;           // that the model has for a sample
  bool operator==(const FollowedRun&) const = default;
};

// Reads the newest complete checkpoint in `directory` that says what the run trains on; those of
// early versions do not. Returns nullopt if there is none: a later one will say it.
// FailedPrecondition: one is of a newer format. Other errors: the directory cannot be read.
absl::StatusOr<std::optional<FollowedRun>> FindFollowedRun(FileSystem& files,
                                                           const std::string& directory);

// DataLoss: the model of `run` cannot be evaluated on these samples; names `path`, what was found
// and what is expected. InvalidArgument: their labels do not fit the loss.
absl::Status CheckTestData(const FollowedRun& run, api::LossType loss, const std::string& path,
                           const Dataset& test);

}  // namespace lockstep::train
