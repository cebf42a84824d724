// How long a job's rank 0 has been in one training step, by what its leading pod tells.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace lockstep::proto {
class GetStatusResponse;
}

namespace lockstep::progress {

// Not thread-safe.
class StepWatch {
 public:
  // Takes an answer that the leading pod gave at `now`. A different count of finished steps, or a
  // different generation, means a new step. A step continues while the members that have given it
  // up wait for one that has not.
  void Record(const proto::GetStatusResponse& said, SteadyTime now);
  // Forgets the step, because nothing has been heard of rank 0 for a while.
  void Reset() { seen_.reset(); }
  // Returns the time from the first answer that told of the present step to the last one; nullopt
  // if rank 0 is in none. It is in none while it waits for members that are lost or have yet to
  // come, shares state, evaluates or saves, and after its last step.
  std::optional<Duration> InStepFor() const;

 private:
  struct Seen {
    std::uint64_t generation = 0;
    std::int64_t finished = 0;  // steps before this one
    SteadyTime first, last;
  };
  std::optional<Seen> seen_;
};

}  // namespace lockstep::progress
