// Reads a YAML file with one TrainingJob and its companion objects.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

// Which TrainingJob to read. AddJobFileOptions declares them.
struct JobFileOptions {
  std::string file;               // "-": standard input
  std::vector<std::string> sets;  // PATH=VALUE
};

struct JobFile {
  std::string source;                 // what messages call the file
  api::TrainingJob job;               // without defaults
  std::vector<kube::Object> objects;  // ConfigMaps, Secrets, PersistentVolumeClaims
};

// What messages call the file: `path`, or "standard input" for "-".
std::string SourceOf(const std::string& path);

// Reads the whole file; `path` "-" is standard input. Errors: as for ReadFile.
absl::StatusOr<std::string> ReadInput(const std::string& path);

// The same error with the file's name before each line, so that editors can jump to it.
absl::Status InFile(const std::string& source, const absl::Status& status);

// Applies `options.sets` to the job before parsing it. Errors name the file and every fault of the
// job: in its fields, and what Validate finds after defaulting.
absl::StatusOr<JobFile> LoadJobFile(const JobFileOptions& options);

// Like LoadJobFile, from text; `source` prefixes errors.
absl::StatusOr<JobFile> ParseJobFile(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& sets);

}  // namespace lockstep::cli
