// `lockstep init`: the first job of somebody who has a folder of data and no YAML yet.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"

namespace lockstep::cli {

struct InitOptions {
  std::string file = "-";  // "-": stdout
  std::string data;        // a folder; empty: synthetic data
  std::string name = "my-job";
  std::string model;  // empty: one that suits the data
  int workers = 2;
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddInitCommand(CLI::App& app, InitOptions& options);

// Writes the job to the file or to stdout. Returns the exit code.
ExitCode RunInit(const InitOptions& options);

// Returns the job as YAML with comments. InvalidArgument: the folder's data has no format that is
// known, or an option makes a job that is not valid; the message names the option. NotFound: the
// folder cannot be read.
absl::StatusOr<std::string> NewJob(const InitOptions& options);

// Returns the format of the files in the folder, by their names; nullopt: none that the trainer
// reads. NotFound: the folder cannot be read. InvalidArgument: there are files of several formats.
absl::StatusOr<std::optional<api::DatasetFormat>> FormatOfFolder(const std::string& folder);

}  // namespace lockstep::cli
