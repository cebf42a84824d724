#include "operator/local/pod_runner.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/rfc3339.h"
#include "operator/local/logs.h"
#include "operator/local/volumes.h"

namespace lockstep::local {
namespace {

using kube::Object;

// The shell's code for "command not found"; restartPolicy ExitCode treats it as permanent, as it
// should be.
constexpr int kStartErrorCode = 127;
// How often to check leftovers of a stopped process during the grace period.
constexpr Duration kLeftoverCheck = std::chrono::milliseconds(20);

Object Condition(const char* type, bool is_true, Time since) {
  return {{"type", type},
          {"status", is_true ? "True" : "False"},
          {"lastTransitionTime", FormatApiTime(since)}};
}

}  // namespace

PodRunner::PodRunner(PodPlan plan, ProcessHost& host, const Clock& clock, Backoff backoff)
    : plan_(std::move(plan)), host_(host), clock_(clock), backoff_(backoff), created_(clock.Now()) {
  for (const ContainerPlan& container : plan_.containers) {
    containers_.emplace_back().plan = container;
  }
}

bool PodRunner::Owns(pid_t pid) const {
  return std::any_of(containers_.begin(), containers_.end(), [&](const Container& c) {
    return c.state == State::kRunning && c.pid == pid;
  });
}

void PodRunner::Advance() {
  const bool kill = kill_at_ && clock_.SteadyNow() >= *kill_at_;
  for (Container& container : containers_) {
    if (container.state == State::kRunning && kill) host_.SignalGroup(container.pid, SIGKILL);
    if (container.state != State::kEnding) continue;
    if (kill || !host_.GroupIsAlive(container.pid)) StopLeftovers(container);
  }
  if (terminating_) return;
  for (Container& container : containers_) {
    StartDue(container);
    // Later containers wait for an init container, unless it is a sidecar that has started once.
    const bool begun =
        container.plan.sidecar && (container.state == State::kRunning || container.last);
    const bool passed = container.state == State::kTerminated && container.ended->code == 0;
    if (container.plan.init && !begun && !passed) return;
  }
  EndSidecars();
}

void PodRunner::StartDue(Container& container) {
  if (container.state == State::kWaiting && clock_.SteadyNow() >= container.next_start) {
    Start(container);
  }
}

void PodRunner::Start(Container& container) {
  container.started = clock_.Now();
  container.started_steady = clock_.SteadyNow();
  container.ended.reset();
  absl::Status ready = container.plan.process.status();
  for (const std::string& part : container.plan.parts) {
    if (ready.ok()) ready = MakePart(part);
  }
  if (!ready.ok()) {
    End(container, {kStartErrorCode, 0, "CreateContainerConfigError", std::string(ready.message()),
                    container.started, container.started});
    return;
  }
  ProcessSpec spec = *container.plan.process;
  container.log_path = NextLogPath(plan_.log_folder, plan_.name,
                                   plan_.containers.size() > 1 ? container.plan.name : "");
  spec.log_path = container.log_path;
  TakeMessage(container.plan.message_path);  // left by a start that was killed together with us
  const absl::StatusOr<pid_t> pid = host_.Start(spec);
  if (pid.ok()) {
    container.pid = *pid;
    container.state = State::kRunning;
    return;
  }
  End(container, {kStartErrorCode, 0, "StartError", std::string(pid.status().message()),
                  container.started, container.started});
}

void PodRunner::OnExit(const ProcessExit& exit) {
  for (Container& container : containers_) {
    if (container.state != State::kRunning || container.pid != exit.pid) continue;
    Ended ended{exit.code, exit.signal,       exit.code == 0 ? "Completed" : "Error",
                "",        container.started, clock_.Now()};
    ended.message = TakeMessage(container.plan.message_path);
    if (ended.message.empty() && exit.code != 0 && container.plan.logs_as_message) {
      ended.message = LastLines(container.log_path);
    }
    // A shell killed by SIGTERM leaves its command behind. A container would not have lost its
    // first process to it, so the command gets the rest of the grace period.
    if (terminating_ && host_.GroupIsAlive(exit.pid)) {
      host_.SignalGroup(exit.pid, SIGTERM);
      container.ended = std::move(ended);
      container.state = State::kEnding;
      return;
    }
    if (container.plan.process.ok()) {
      host_.KillLeftovers(exit.pid, container.plan.process->marker);
    }
    End(container, std::move(ended));
    return;
  }
}

void PodRunner::StopLeftovers(Container& container) {
  host_.KillLeftovers(container.pid, container.plan.process->marker);
  Ended ended = *std::move(container.ended);
  End(container, std::move(ended));
}

bool PodRunner::Restarts(const Container& container, int code) const {
  if (terminating_) return false;
  if (container.plan.sidecar) return true;
  // An init container is done once it has succeeded, whatever the policy.
  if (container.plan.init && code == 0) return false;
  if (plan_.restart_policy == "Always") return true;
  return plan_.restart_policy == "OnFailure" && code != 0;
}

void PodRunner::End(Container& container, Ended ended) {
  if (!Restarts(container, ended.code)) {
    container.ended = std::move(ended);
    container.state = State::kTerminated;
    return;
  }
  const SteadyTime now = clock_.SteadyNow();
  if (now - container.started_steady >= backoff_.reset_after) container.backoff = Duration(0);
  container.next_start = now + container.backoff;
  container.backoff = std::min(std::max(backoff_.initial, container.backoff * 2), backoff_.limit);
  container.last = std::move(ended);
  container.ended.reset();
  container.state = State::kWaiting;
  ++container.restarts;
}

// Stops the sidecars once all other containers are done.
void PodRunner::EndSidecars() {
  const bool all_done =
      std::all_of(containers_.begin(), containers_.end(),
                  [&](const Container& c) { return c.plan.sidecar || IsDone(c); });
  const bool any_left = std::any_of(containers_.begin(), containers_.end(), [](const Container& c) {
    return c.plan.sidecar && c.state != State::kTerminated;
  });
  if (all_done && any_left) Terminate(plan_.grace);
}

void PodRunner::Terminate(Duration grace) {
  const SteadyTime kill_at = clock_.SteadyNow() + grace;
  if (!kill_at_ || kill_at < *kill_at_) kill_at_ = kill_at;
  if (!std::exchange(terminating_, true)) {
    for (Container& container : containers_) {
      if (container.state == State::kRunning) host_.Signal(container.pid, SIGTERM);
      // It was waiting for a restart; now its last end is final.
      if (container.state == State::kWaiting && container.last) {
        container.ended = container.last;
        container.state = State::kTerminated;
      }
    }
  }
  Advance();
}

std::optional<SteadyTime> PodRunner::NextDeadline() const {
  std::optional<SteadyTime> next;
  const auto consider = [&](SteadyTime at) {
    if (!next || at < *next) next = at;
  };
  for (const Container& container : containers_) {
    if (container.state == State::kWaiting && !terminating_ && container.last) {
      consider(container.next_start);
    }
    if (container.state == State::kEnding) consider(clock_.SteadyNow() + kLeftoverCheck);
    // Afterwards SIGKILL has been sent and only the exit is awaited.
    if (container.state == State::kRunning && kill_at_ && clock_.SteadyNow() < *kill_at_) {
      consider(*kill_at_);
    }
  }
  return next;
}

bool PodRunner::HasProcesses() const {
  return std::any_of(containers_.begin(), containers_.end(), [](const Container& c) {
    return c.state == State::kRunning || c.state == State::kEnding;
  });
}

bool PodRunner::IsDone(const Container& container) const {
  return container.state == State::kTerminated;
}

std::string PodRunner::Phase() const {
  bool started = false, failed = false, done = true;
  for (const Container& container : containers_) {
    const bool nonzero = container.state == State::kTerminated && container.ended->code != 0;
    if (container.plan.init) {
      if (!container.plan.sidecar && nonzero) return "Failed";
      if (container.plan.sidecar && container.state != State::kTerminated) done = false;
      continue;
    }
    done = done && IsDone(container);
    failed = failed || nonzero;
    started = started || container.state != State::kWaiting || container.last;
  }
  if (done) return failed ? "Failed" : "Succeeded";
  // A pod that was stopped before all containers had started will not continue.
  if (terminating_ && !HasProcesses()) return "Failed";
  return started ? "Running" : "Pending";
}

Object PodRunner::StatusOf(const Container& container) const {
  const auto terminated = [](const Ended& ended) {
    Object state = {{"exitCode", ended.code},
                    {"reason", ended.reason},
                    {"startedAt", FormatApiTime(ended.started)},
                    {"finishedAt", FormatApiTime(ended.finished)}};
    if (ended.signal != 0) state["signal"] = ended.signal;
    if (!ended.message.empty()) state["message"] = ended.message;
    return Object{{"terminated", state}};
  };
  const bool running = container.state == State::kRunning || container.state == State::kEnding;
  Object status = {
      {"name", container.plan.name},
      {"image", container.plan.image},
      {"imageID", ""},
      {"ready", running || (container.plan.init && !container.plan.sidecar &&
                            container.state == State::kTerminated && container.ended->code == 0)},
      {"started", running},
      {"restartCount", container.restarts},
      {"lastState", container.last ? terminated(*container.last) : Object::object()}};
  if (running) {
    status["state"] = {{"running", {{"startedAt", FormatApiTime(container.started)}}}};
    status["containerID"] = fmt::format("process://{}", container.pid);
  } else if (container.state == State::kTerminated) {
    status["state"] = terminated(*container.ended);
  } else {
    status["state"] = {
        {"waiting", {{"reason", container.last ? "CrashLoopBackOff" : "PodInitializing"}}}};
  }
  return status;
}

Object PodRunner::Status() const {
  Object init = Object::array(), regular = Object::array();
  bool initialized = true, ready = true;
  for (const Container& container : containers_) {
    Object status = StatusOf(container);
    const bool is_ready = status["ready"].get<bool>();
    if (container.plan.init) initialized = initialized && is_ready;
    ready = ready && (is_ready || (container.plan.init && !container.plan.sidecar));
    (container.plan.init ? init : regular).push_back(std::move(status));
  }
  ready = ready && initialized && Phase() == "Running";
  Object status = {
      {"phase", Phase()},
      {"startTime", FormatApiTime(created_)},
      {"podIP", plan_.ip},
      {"podIPs", {{{"ip", plan_.ip}}}},
      {"hostIP", "127.0.0.1"},
      {"containerStatuses", std::move(regular)},
      {"conditions",
       {Condition("PodScheduled", true, created_), Condition("Initialized", initialized, created_),
        Condition("ContainersReady", ready, created_), Condition("Ready", ready, created_)}}};
  if (!init.empty()) status["initContainerStatuses"] = std::move(init);
  return status;
}

}  // namespace lockstep::local
