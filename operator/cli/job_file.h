// A YAML file with one TrainingJob and what belongs to it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

struct JobFile {
  api::TrainingJob job;               // as written
  std::vector<kube::Object> objects;  // ConfigMaps, Secrets, PersistentVolumeClaims
};

// The whole file; `path` "-" is standard input. NotFound says why it cannot be read.
absl::StatusOr<std::string> ReadInput(const std::string& path);

// `path` as for ReadInput. `sets` are applied to the job before it is read. Errors name the
// file, and every fault of the job: its fields, and what Validate finds once defaults are filled
// in.
absl::StatusOr<JobFile> LoadJobFile(const std::string& path, const std::vector<std::string>& sets);

// The same from text; `source` stands in errors.
absl::StatusOr<JobFile> ParseJobFile(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& sets);

}  // namespace lockstep::cli
