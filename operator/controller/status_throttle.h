// When a job's status may be written that nobody waits for.
#pragma once

#include <mutex>
#include <optional>

#include "operator/controller/rules/plan.h"
#include "operator/controller/state/settings.h"
#include "operator/kube/rest/request_limiter.h"

namespace lockstep::controller {

// A job's places in the two queues: of first sights and reasons, and of counts. A place is kept
// until a status is written.
struct StatusTurns {
  std::optional<SteadyTime> said, counted;
};

// A status costs the API server more than a pod does. So statuses of all jobs together that can
// wait have a rate (Settings::status_rate), and while the server has no time for both, as its
// answers tell, pods go first. Thread-safe.
class StatusThrottle {
 public:
  explicit StatusThrottle(const Settings& settings);
  // How long `plan`, which can wait, has to. Takes a place in `turns` if there is none.
  Duration Wait(const Plan& plan, SteadyTime now, StatusTurns& turns);
  // What a write took.
  void Note(Duration took);

 private:
  std::mutex mutex_;
  kube::TokenBucket said_, counted_;  // guarded by mutex_, like what follows
  Duration write_time_{};             // averaged
};

}  // namespace lockstep::controller
