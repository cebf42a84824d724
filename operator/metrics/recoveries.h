// How long jobs need until replicas that were lost are replaced, where the others stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "api/v1/training_job.h"
#include "base/clock.h"

namespace lockstep::metrics {

// The status does not say when replicas of a running attempt were lost: this remembers it. What was
// lost before this process began is not measured. Thread-safe.
class Recoveries {
 public:
  // At most this many jobs are remembered; of more, those that lost replicas first are forgotten.
  explicit Recoveries(std::size_t most) : most_(most) {}

  // Takes note of a change of a job. Returns the seconds since its replicas were lost if with
  // `after` as many are ready as before that.
  std::optional<double> UpdateRecovery(const api::TrainingJob& before,
                                       const api::TrainingJob& after, Time now);

 private:
  struct Loss {
    Time since;
    std::int64_t ready = 0;  // how many replicas are to be ready again
  };

  std::optional<double> UpdateLocked(const api::TrainingJob& before, const api::TrainingJob& after,
                                     Time now);
  void ForgetOldest();

  const std::size_t most_;
  std::mutex mutex_;
  std::map<std::string, Loss> losses_;  // by uid; guarded by mutex_
};

}  // namespace lockstep::metrics
