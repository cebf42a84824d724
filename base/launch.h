// Starts child processes and describes how they ended.
#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

using Environment = std::map<std::string, std::string>;

// Returns this process's environment. If it has a name twice, the first entry counts, as in getenv.
Environment CurrentEnvironment();

// Returns `name` if it has a slash, else the absolute path of the first executable file of that
// name in the folders of env's PATH ("/usr/bin:/bin" without one). NotFound: there is none.
absl::StatusOr<std::string> FindProgram(const std::string& name, const Environment& env);

struct LaunchSpec {
  std::string program;            // the file to execute, relative to working_dir; empty: argv[0]
  std::vector<std::string> argv;  // not empty
  Environment env;                // complete; nothing is inherited
  std::string working_dir;        // empty: this process's
  // This process's descriptors that become the child's 0, 1 and 2; -1: /dev/null.
  std::array<int, 3> stdio = {0, 1, 2};
  std::vector<int> fds;  // also inherited, under the same numbers, even if they are close-on-exec
  bool close_others = false;     // even those that are not close-on-exec
  std::vector<int> cpus;         // affinity, as far as permitted; empty: this thread's
  bool new_session = false;      // the child leads a session and a process group of its own
  bool default_signals = false;  // false: signals that this process ignores stay ignored
  // Signals that are blocked in the child. The program must unblock them or wait for them, or it
  // never receives them.
  std::vector<int> blocked_signals;
  // The child gets SIGKILL when the thread that called Launch ends, even if that is killed.
  bool dies_with_thread = false;
};

// Starts a child in which only `blocked_signals` are blocked, and returns once the child executes
// the program. On failure, the code is that of the failed call (NotFound, PermissionDenied, …). The
// message gives the reason and, if a process could be created, names the program or the folder.
// Thread-safe.
absl::StatusOr<pid_t> Launch(const LaunchSpec& spec);

// Executes this process's own program anew, in this process, with the same arguments and the
// environment `env`. It inherits the standard streams and `fds`, and nothing else. Blocked signals
// stay blocked, and pending ones stay pending. No destructor runs. Returns only on failure.
absl::Status StartAgain(const Environment& env, const std::vector<int>& fds);

// Blocks until the child has ended, and returns its wait status (see waitpid(2)).
int WaitFor(pid_t child);

// Returns the exit code, or 128 + the signal's number, as shells and container runtimes do.
int ExitCodeOf(int wait_status);
std::string DescribeExit(int wait_status);  // "exit code 11", "signal 9 (Killed)"

}  // namespace lockstep
