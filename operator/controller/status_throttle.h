// When a deferrable status write may happen.
#pragma once

#include <mutex>
#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/rest/request_limiter.h"

namespace lockstep::controller {

// A job's turns in the two rate limits: `said` for first sights and reasons, `counted` for counts.
// A turn is kept until a status is written.
struct StatusTurns {
  std::optional<SteadyTime> said, counted;
};

// Limits the rate of deferrable status writes of all jobs together (Settings::status_rate): a
// status write costs the API server more than a pod does. Slow answers lower the rate, so that pods
// go first while the server is overloaded. Thread-safe.
class StatusThrottle {
 public:
  explicit StatusThrottle(const Settings& settings);
  // Returns how long the status of `plan`, which must be deferrable, has to wait. Reserves a turn
  // in `turns` if there is none.
  Duration Wait(const Plan& plan, SteadyTime now, StatusTurns& turns);
  // Records how long a write took.
  void Note(Duration took);

 private:
  std::mutex mutex_;
  kube::TokenBucket said_, counted_;  // guarded by mutex_, like the next member
  Duration write_time_{};             // moving average
};

}  // namespace lockstep::controller
