// The secret of a test's job, for those of its processes that are of one group.
#pragma once

namespace lockstep::testing {

inline constexpr char kJobSecret[] = "a secret of the job";

}  // namespace lockstep::testing
