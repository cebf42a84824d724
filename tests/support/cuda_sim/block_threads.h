// The threads of a block that meet at barriers: one fiber each, of which one runs at a time.
#pragma once

#include <functional>

namespace cuda_sim {

// Runs `thread` once for every thread of the block at `position`, which it sets for each. Those
// that meet wait for all others to meet or to end.
void RunMeetingBlock(const std::function<void()>& thread);

}  // namespace cuda_sim
