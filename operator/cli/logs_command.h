// `lockstep logs JOB`.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

struct LogsOptions {
  ClusterOptions cluster;
  std::string job;
  std::string role;  // "worker"; empty: the leading replica's role, or worker if index > 0
  int index = 0;
  std::string container;  // empty: the main container
  bool all = false;       // replicas, or those of `role`
  bool follow = false, previous = false, timestamps = false;
  std::optional<int> tail;   // lines
  std::optional<int> since;  // seconds
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddLogsCommand(CLI::App& app, LogsOptions& options);

// Connects to the cluster and prints the log to stdout. Returns the exit code.
ExitCode RunLogs(const LogsOptions& options);

struct LogSource {
  kube::Key pod;
  std::string container;
  bool is_init = false;  // it stands for the main container, which it keeps from starting
  bool operator==(const LogSource&) const = default;
};

// Finds the log of a job's replica in the namespace. Ignores `options.cluster`. NotFound: the job,
// the role, the replica or its pod does not exist; the message names the replicas that exist, or
// the job's state. InvalidArgument: the job's spec is invalid and it never had replicas. Other
// errors are those of the client.
absl::StatusOr<LogSource> FindLog(kube::Client& client, const std::string& namespace_name,
                                  const LogsOptions& options);

}  // namespace lockstep::cli
