// Prints the logs of several replicas in the order of time (`lockstep logs JOB --all`), or follows
// the log of one (`--follow`).
#pragma once

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "operator/kube/rest/rest_client.h"

namespace lockstep::cli {

struct MergedLogsOptions {
  std::optional<api::Role> role;  // nullopt: all
  std::optional<int> index;       // nullopt: all of `role`. Lines of one replica have no prefix
  bool timestamps = false;
  // `container` is empty for each pod's main container, or ContainerToBlame. With `follow`, the
  // logs of pods and containers that start later follow from their beginning, until the job and its
  // containers have ended.
  kube::PodLogOptions log;
  Duration poll_period = std::chrono::seconds(2);  // between two looks at the job's pods
};

// Says on stderr that the log of an init container, which keeps the main one from starting, stands
// for the log of the pod or replica `whose`.
void ReportInitLog(const std::string& whose, const std::string& container);

// Prints each line once, as "<replica> | <line>" to `out`, in the order of the lines' times; a line
// that its program has redrawn, by carriage returns, as one line for each redraw;
// followed logs, as they come, also if the connection to one is lost in between or its container is
// restarted. Prints to stderr, and goes on, if a replica has no log or its log cannot be read.
// Returns the first such failure to read; NotFound: the job does not exist, or has ended and none
// of its pods has a log.
absl::Status PrintMergedLogs(kube::RestClient& client, const kube::Key& job,
                             const MergedLogsOptions& options, std::FILE* out);

}  // namespace lockstep::cli
