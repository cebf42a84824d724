// `lockstep describe JOB`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/cli/cluster/job_facts.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

struct DescribeOptions {
  ClusterOptions cluster;
  std::string job;
  std::string output = "text";
  int tail = 10;                                 // lines of the log
  Duration patience = std::chrono::seconds(10);  // for the log
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddDescribeCommand(CLI::App& app, DescribeOptions& options);

// Connects to the cluster and prints what is known of the job to stdout. Returns the exit code.
ExitCode RunDescribe(const DescribeOptions& options);

// What RunDescribe does once connected: returns what `output` (text, json or yaml) asks for.
// NotFound: there is no such job. Events and logs that may not be read are left out, and the text
// says so.
absl::StatusOr<std::string> Describe(kube::Client& client, const kube::Key& job, const Clock& clock,
                                     const LogReader& read_log, const std::string& output);

}  // namespace lockstep::cli
