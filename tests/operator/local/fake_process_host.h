// Simulated processes: tests start, signal and end them by name.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/local/process.h"

namespace lockstep::local {

class FakeProcessHost final : public ProcessHost {
 public:
  absl::StatusOr<pid_t> Start(const ProcessSpec& spec) override {
    if (spec.argv.front() == "absent") return absl::NotFoundError("command not found: absent");
    const pid_t pid = next_pid_++;
    pids_[spec.argv.front()] = pid;
    started.push_back(spec.argv.front());
    return pid;
  }
  void Signal(pid_t pid, int signal) override { signals.emplace_back(NameOf(pid), signal); }
  void SignalGroup(pid_t group, int signal) override {
    signals.emplace_back(NameOf(group) + "+", signal);
  }
  bool GroupIsAlive(pid_t group) override { return groups_with_leftovers.contains(NameOf(group)); }
  void KillLeftovers(pid_t group, const std::string&) override { cleaned.insert(NameOf(group)); }

  // Returns an exit of the process that runs `name` now.
  ProcessExit Exit(const std::string& name, int code, int signal = 0) {
    return {pids_.at(name), signal == 0 ? code : 128 + signal, signal};
  }

  std::vector<std::string> started;                  // argv[0] of each start
  std::vector<std::pair<std::string, int>> signals;  // "name", or "name+" for its group
  std::set<std::string> groups_with_leftovers, cleaned;

 private:
  std::string NameOf(pid_t pid) const {
    for (const auto& [name, id] : pids_) {
      if (id == pid) return name;
    }
    return "?";
  }

  pid_t next_pid_ = 100;
  std::map<std::string, pid_t> pids_;
};

}  // namespace lockstep::local
