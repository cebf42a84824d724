// Processes as this machine's kernel gives them: start, exit, signals, and nothing left behind.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace lockstep::local {

struct ProcessSpec {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;  // all of it; nothing is inherited
  std::string working_dir;
  std::string log_path;   // stdout and stderr are appended to it
  std::vector<int> cpus;  // affinity; empty: any
  std::string marker;     // told to the process in its environment; a mark, see marked_processes.h
};

struct ProcessExit {
  pid_t pid = 0;
  int code = 0;    // 128 + signal if a signal ended it, as container runtimes say
  int signal = 0;  // 0: it ended by itself
};

// What a pod needs of the kernel; a fake stands in for it in tests of pods.
class ProcessHost {
 public:
  virtual ~ProcessHost() = default;
  // The process leads a session and group of its own. NotFound: no such executable; another code:
  // it could not be started; both say why.
  virtual absl::StatusOr<pid_t> Start(const ProcessSpec& spec) = 0;
  virtual void Signal(pid_t pid, int signal) = 0;
  virtual void SignalGroup(pid_t group, int signal) = 0;
  virtual bool GroupIsAlive(pid_t group) = 0;
  // Kills what an ended process left behind, in its group or out of it.
  virtual void KillLeftovers(pid_t group, const std::string& marker) = 0;
};

// Start, Poll and the rest belong to one thread, which must outlive every process: the kernel kills
// a process when the thread that started it ends (so also when this program is killed). Processes
// whose parent has died become this program's children.
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

  // Waits for exits, for Wake or until `deadline`.
  std::vector<ProcessExit> Poll(std::optional<SteadyTime> deadline);
  // Makes Poll return. From any thread.
  void Wake();

 private:
  int epoll_ = -1;
  int wake_ = -1;
  std::map<pid_t, int> pidfds_;  // of what was started and has not been waited for
};

}  // namespace lockstep::local
