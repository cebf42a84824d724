// Starts, signals and awaits processes of this machine, and leaves none behind.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/launch.h"

namespace lockstep::local {

struct ProcessSpec {
  std::vector<std::string> argv;
  Environment env;  // complete; nothing is inherited
  std::string working_dir;
  std::string log_path;   // receives stdout and stderr, appended
  std::vector<int> cpus;  // affinity; empty: any
  std::string marker;     // set in the process's environment; see marked_processes.h
};

struct ProcessExit {
  pid_t pid = 0;
  int code = 0;    // 128 + signal if a signal killed it, as container runtimes report
  int signal = 0;  // 0: it exited by itself
};

// What a pod needs from the kernel. Tests of pods use a fake.
class ProcessHost {
 public:
  virtual ~ProcessHost() = default;
  // Starts a process that leads its own session and group. On failure, the message says why it
  // could not be started, and so does the last line of the log, if that can be written.
  virtual absl::StatusOr<pid_t> Start(const ProcessSpec& spec) = 0;
  virtual void Signal(pid_t pid, int signal) = 0;
  virtual void SignalGroup(pid_t group, int signal) = 0;
  virtual bool GroupIsAlive(pid_t group) = 0;
  // Kills what an ended process left behind, in its group or outside.
  virtual void KillLeftovers(pid_t group, const std::string& marker) = 0;
};

// Use from one thread, except Wake; that thread must outlive every process: the kernel kills a
// process when the thread that started it ends (so also when this program is killed). Orphans of
// the processes become children of this program.
class SystemProcesses final : public ProcessHost {
 public:
  SystemProcesses();
  ~SystemProcesses() override;
  SystemProcesses(const SystemProcesses&) = delete;
  SystemProcesses& operator=(const SystemProcesses&) = delete;

  absl::StatusOr<pid_t> Start(const ProcessSpec& spec) override;
  void Signal(pid_t pid, int signal) override;
  void SignalGroup(pid_t group, int signal) override;
  bool GroupIsAlive(pid_t group) override;
  void KillLeftovers(pid_t group, const std::string& marker) override;

  // Waits for exits, for Wake or until `deadline`. Returns the exits.
  std::vector<ProcessExit> Poll(std::optional<SteadyTime> deadline);
  // Makes Poll return. Thread-safe.
  void Wake();

 private:
  const Descriptor epoll_, wake_;
  std::map<pid_t, Descriptor> pidfds_;  // of processes that were started and not yet waited for
};

}  // namespace lockstep::local
