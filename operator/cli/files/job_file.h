// Reads a YAML file with TrainingJobs and their companion objects.
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

// One TrainingJob of a file that may have several.
struct CheckedJob {
  std::string name;     // empty: it has none
  absl::Status status;  // every fault of the job
};

// What messages call the file: `path`, or "standard input" for "-".
std::string SourceOf(const std::string& path);

// Reads the whole file; `path` "-" is standard input. Errors: as for ReadFile.
absl::StatusOr<std::string> ReadInput(const std::string& path);

// The same error with the file's name before each line, so that editors can jump to it.
absl::Status InFile(const std::string& source, const absl::Status& status);

// Reads a file with one TrainingJob. Applies `options.sets` to the job before parsing it. Errors
// name the file and every fault of the job: in its fields, and what Validate finds after
// defaulting.
absl::StatusOr<JobFile> LoadJobFile(const JobFileOptions& options);

// Like LoadJobFile, from text; `source` prefixes errors.
absl::StatusOr<JobFile> ParseJobFile(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& sets);

// Checks every TrainingJob of a file, in its order, each as LoadJobFile does. In a file with
// several, faults also name the job. An error is about the file, not about a job.
absl::StatusOr<std::vector<CheckedJob>> CheckJobFile(const JobFileOptions& options);

}  // namespace lockstep::cli
