// `lockstep suspend JOB` and `lockstep resume JOB`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"
#include "operator/kube/client.h"

namespace lockstep::cli {

struct SuspendOptions {
  ClusterOptions cluster;
  std::string job;
};

// Each adds its verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddSuspendCommand(CLI::App& app, SuspendOptions& options);
CLI::App* AddResumeCommand(CLI::App& app, SuspendOptions& options);

// Each connects to the cluster, sets spec.suspend and prints what has changed. RunResume first
// waits for at most 30 s until the operator has noticed the suspension. Return the exit code.
ExitCode RunSuspend(const SuspendOptions& options);
ExitCode RunResume(const SuspendOptions& options);

struct SuspendReport {
  std::string text;  // what has changed
  std::string note;  // why the job may not do as it was told; empty: it does
};

// Returns whether the operator has noticed that the job is suspended, or has no pods of it: asks
// for the job at each `interval` until it has, or until `patience` has passed. A job that is
// resumed before keeps its pods, whatever an edit meanwhile says of them. True as well if the job
// cannot be read, or is not suspended.
bool AwaitNoticed(kube::Client& client, const kube::Key& job, Duration patience, Duration interval);

// What the verbs do once connected. A job that is already so is not written. Errors: those of
// kube::ChangeObject.
absl::StatusOr<SuspendReport> SetSuspend(kube::Client& client, const kube::Key& job, bool suspend);

}  // namespace lockstep::cli
