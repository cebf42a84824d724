// Every exit code of the `lockstep` program. The comment above each is also its meaning in
// docs/cli.md; tests/cli_docs_test.py compares the two.
#pragma once

namespace lockstep::cli {

// Success. For `run`: the job succeeded.
inline constexpr int kExitDone = 0;

// For `status`, `describe`, `top` and `logs`: the cluster cannot be reached, refused the request,
// or has no such job or log; with `logs --all`, a log could not be read to its end; with `top`, no
// run uses the work directory, or the metrics that `--once` asks for could not be read. For `run`:
// the job failed, and no replica has an exit code to return. For `plan` and `export`:
// `lockstep-trainer` cannot be started, or has ended without a result, for example because the disk
// is full. For every verb: an internal error.
inline constexpr int kExitError = 1;

// The command line or its input cannot be used: an unknown option, a file that is missing or not
// valid, a kubeconfig that cannot be read, a work directory that is in use.
inline constexpr int kExitUsage = 2;

// For `status`: a job that was watched to its end failed.
inline constexpr int kExitJobFailed = 3;

// For `plan`: the job needs more memory than its pods may use or this machine has.
inline constexpr int kExitDoesNotFit = 4;

// For `run`: `--timeout` has passed, as with timeout(1).
inline constexpr int kExitTimedOut = 124;

// For `run`: interrupted by SIGINT, SIGTERM or SIGHUP.
inline constexpr int kExitInterrupted = 130;

// For `run`: the exit code of the replica that failed the job.
inline constexpr int kFirstReplicaExit = 1, kLastReplicaExit = 255;

}  // namespace lockstep::cli
