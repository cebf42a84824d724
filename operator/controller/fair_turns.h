// Grants a rate-limited turn to one job after another; namespaces take turns.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "operator/kube/object.h"
#include "operator/kube/token_bucket.h"

namespace lockstep::controller {

// Even if 10,000 jobs of one namespace wait, a job of another namespace waits for at most one of
// them. Within a namespace, the job that has waited longest comes first. Not thread-safe.
class FairTurns {
 public:
  // Grants `rate` turns per second (0: no limit), and up to `burst` at once after a pause.
  FairTurns(double rate, int burst) : bucket_(rate, burst), rate_(rate) {}

  // Returns zero if it is the job's turn, which it keeps until Drop. Else the job waits in line
  // from now on, and the call returns when to ask again; it may have to wait again then, if jobs of
  // other namespaces have queued meanwhile. Two turns are at least `apart` apart.
  Duration Wait(const kube::Key& job, SteadyTime now, Duration apart);
  // Ends the job's turn, or takes it out of the line.
  void Drop(const kube::Key& job);

 private:
  using Line = std::deque<std::pair<std::uint64_t, kube::Key>>;  // ascending

  void Grant(SteadyTime now, Duration apart);
  void Enter(const kube::Key& job);
  std::size_t CountBefore(const kube::Key& job) const;

  kube::TokenBucket bucket_;
  const double rate_;
  std::optional<SteadyTime> next_;              // of the next turn; set while jobs wait
  std::map<std::string, Line> lines_;           // by namespace; none is empty
  std::deque<std::string> order_;               // of lines_: whose turn is next
  std::map<kube::Key, std::uint64_t> waiting_;  // their places in lines_
  std::set<kube::Key> granted_;
  std::uint64_t last_place_ = 0;
};

}  // namespace lockstep::controller
