// `lockstep logs JOB`.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

struct LogsOptions {
  std::string job, namespace_name;
  std::string role;  // "worker"; empty: the leading replica's role
  int index = 0;
  std::string container;  // empty: the main container
};

struct LogSource {
  kube::Key pod;
  std::string container;
  bool operator==(const LogSource&) const = default;
};

// Finds the log of a job's replica. NotFound if the job, the role or the pod does not exist; the
// message says what does exist.
absl::StatusOr<LogSource> FindLog(kube::Client& client, const LogsOptions& options);

}  // namespace lockstep::cli
