// When a deferrable status write may happen.
#pragma once

#include <mutex>

#include "operator/controller/fair_turns.h"
#include "operator/controller/rules/parts/plan.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

// Limits the rate of deferrable status writes of all jobs together (Settings::status_rate): a
// status write costs the API server more than a pod does. Namespaces take turns. Slow answers lower
// the rate, so that pods go first while the server is overloaded: the writes of a kind (first
// sights, reasons, counts) are as far apart as one takes, at most 0.1 s, and first sights four
// times as far, because the next condition tells at least as much. Thread-safe.
class StatusThrottle {
 public:
  explicit StatusThrottle(const Settings& settings);
  // Returns how long the status of `plan`, which must be deferrable, has to wait. A job's turn is
  // kept until Forget.
  Duration Wait(const kube::Key& job, const Plan& plan, SteadyTime now);
  // Ends the job's turns: its status is written, or the job is gone.
  void Forget(const kube::Key& job);
  // Records how long a write took.
  void Record(Duration took);

 private:
  std::mutex mutex_;
  // Guarded by mutex_.
  FairTurns first_turns_, report_turns_, count_turns_;  // of first sights; of reasons; of counts
  Duration write_time_{};                               // moving average
};

}  // namespace lockstep::controller
