#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

int Membership::FurthestRank(std::int64_t total_steps) const {
  int furthest = -1;
  std::int64_t most = -1;
  for (int at = 0; at < world(); ++at) {
    const std::int64_t step = members[static_cast<std::size_t>(at)].step;
    if (step <= most || step > total_steps) continue;
    most = step;
    furthest = at;
  }
  return furthest;
}

}  // namespace lockstep::train
