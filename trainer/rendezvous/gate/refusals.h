// Callers that a server of the job has refused.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace lockstep::train {

enum class Refusal {
  kNoToken,           // the caller does not prove that it knows the job's token
  kDialledElsewhere,  // it knows the token, but has dialled another address: see IsMeant
};

// Returns what the log says of such a caller, from "does not" or "has" on.
const char* Describe(Refusal why);

// Not thread-safe.
class Refusals {
 public:
  explicit Refusals(const Clock& clock) : clock_(clock) {}
  // Counts one. Logs, at most every 10 s for each reason, the reason, the call, and how many there
  // were for that reason. So strangers cannot hide why a member of the job is refused.
  void Add(Refusal why, const char* call);
  std::int64_t count() const;

 private:
  struct Reason {
    std::int64_t count = 0;
    SteadyTime next_log{};
  };
  const Clock& clock_;
  std::array<Reason, 2> reasons_;
};

}  // namespace lockstep::train
