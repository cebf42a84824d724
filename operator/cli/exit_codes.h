// Every exit code of the `lockstep` program, with what it means. The table in verbs.cc says which
// verb can end with which; --help prints them, and tests/cli_docs_test.py compares docs/cli.md with
// that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// Two that mean different things may have the same code.
struct ExitCode {
  int code = 0;
  std::string_view meaning;  // without a full stop
  int last = code;           // of a range that begins with `code`
  bool operator==(const ExitCode&) const = default;
};

// Each verb can end with one of these.
inline constexpr ExitCode kExitDone{0, "Success"};
inline constexpr ExitCode kExitInternalError{
    1, "An internal error, or the output cannot be written, for example because the disk is full"};
inline constexpr ExitCode kExitUsage{
    2,
    "The command line or its input cannot be used: an unknown option, a file that is missing or "
    "not valid, a kubeconfig that cannot be read, a work directory that is in use"};

inline constexpr ExitCode kExitNoAnswer{
    1, "The cluster cannot be reached, refused the request, or has no such job"};
inline constexpr ExitCode kExitNoLog{
    1,
    "The cluster cannot be reached, refused the request, or has no such job or log, or, with "
    "--all, a log could not be read to its end"};
inline constexpr ExitCode kExitNoTimes{
    1,
    "The cluster cannot be reached, refused the request, or has no such job, no run uses the work "
    "directory, or the metrics that --once asks for could not be read"};
inline constexpr ExitCode kExitTrainerFailed{
    1,
    "lockstep-trainer cannot be started, or has ended without a result, for example because the "
    "disk is full"};
inline constexpr ExitCode kExitRunFailed{
    1, "The job failed, and no replica has an exit code to return"};
inline constexpr ExitCode kExitReplicaFailed{
    1, "The job failed: the exit code of the replica that failed it", 255};
inline constexpr ExitCode kExitJobFailed{3, "A job that was watched to its end failed"};
inline constexpr ExitCode kExitDoesNotFit{
    4, "The job needs more memory than its pods may use or this machine has"};
inline constexpr ExitCode kExitTimedOut{124, "--timeout has passed, as with timeout(1)"};
inline constexpr ExitCode kExitInterrupted{
    130, "Interrupted by SIGINT, SIGTERM or SIGHUP, or whoever read the output has ended"};

// Returns true if `code` is one of the `declared`, or in a range of them.
bool IsOneOf(const ExitCode& code, const std::vector<ExitCode>& declared);

// Returns the codes as a section of --help, in their order: a line each, and more where the meaning
// is long.
std::string ExitCodesText(std::vector<ExitCode> codes);

}  // namespace lockstep::cli
