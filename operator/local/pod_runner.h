// Runs one pod like a kubelet: init containers in order, then all containers, restarts by
// restartPolicy with back-off, SIGTERM and, after the grace period, SIGKILL.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "operator/kube/object.h"
#include "operator/local/process.h"

namespace lockstep::local {

struct ContainerPlan {
  std::string name, image;
  absl::StatusOr<ProcessSpec> process;  // on error, the container fails with it when started
  bool init = false;
  bool sidecar = false;                 // an init container with restartPolicy Always
  std::string message_path;             // the termination message file
  bool logs_as_message = false;         // terminationMessagePolicy: FallbackToLogsOnError
  std::vector<std::string> parts = {};  // of volumes: see MakePart
};

struct PodPlan {
  std::string name, log_folder, ip;
  std::string restart_policy = "Always";  // Always | OnFailure | Never
  Duration grace = std::chrono::seconds(30);
  std::vector<ContainerPlan> containers;  // init containers first, in order
};

// Not thread-safe. The caller polls the host, passes exits to OnExit, and calls Advance when
// NextDeadline passes.
class PodRunner {
 public:
  struct Backoff {  // between restarts: none before the first, then doubling
    Duration initial = std::chrono::seconds(1);
    Duration limit = std::chrono::minutes(5);
    Duration reset_after = std::chrono::minutes(10);  // a run this long resets it
  };

  PodRunner(PodPlan plan, ProcessHost& host, const Clock& clock)
      : PodRunner(std::move(plan), host, clock, Backoff()) {}
  PodRunner(PodPlan plan, ProcessHost& host, const Clock& clock, Backoff backoff);

  // Performs everything that is due: starts, restarts, kills.
  void Advance();
  bool Owns(pid_t pid) const;
  void OnExit(const ProcessExit& exit);
  // Sends SIGTERM now and SIGKILL after `grace`; starts nothing more. A later call can only shorten
  // the grace period.
  void Terminate(Duration grace);
  const PodPlan& plan() const { return plan_; }

  std::optional<SteadyTime> NextDeadline() const;
  bool HasProcesses() const;
  // "Pending", "Running", "Succeeded" or "Failed".
  std::string Phase() const;
  // Returns the pod's `status`.
  kube::Object Status() const;

 private:
  enum class State { kWaiting, kRunning, kEnding, kTerminated };  // kEnding: only leftovers run
  struct Ended {
    int code = 0, signal = 0;
    std::string reason, message;
    Time started, finished;
  };
  struct Container {
    ContainerPlan plan;
    State state = State::kWaiting;
    pid_t pid = 0;
    std::string log_path;
    Time started;
    SteadyTime started_steady;
    std::optional<Ended> ended, last;  // the present end, and the previous one
    int restarts = 0;
    Duration backoff{0};    // delay of the next restart
    SteadyTime next_start;  // while kWaiting: the earliest start
  };

  void StartDue(Container& container);
  void Start(Container& container);
  void End(Container& container, Ended ended);
  bool Restarts(const Container& container, int code) const;
  void StopLeftovers(Container& container);
  void EndSidecars();
  bool IsDone(const Container& container) const;
  kube::Object StatusOf(const Container& container) const;

  const PodPlan plan_;
  ProcessHost& host_;
  const Clock& clock_;
  const Backoff backoff_;
  const Time created_;
  std::deque<Container> containers_;
  std::optional<SteadyTime> kill_at_;  // set: the pod is being stopped
  bool terminating_ = false;           // nothing starts any more
};

}  // namespace lockstep::local
