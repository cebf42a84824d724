// API calls of one reconcile, several at a time.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace lockstep::controller {

// Calls work(0) … work(count - 1) on up to `threads` threads and waits for all of them. Returns the
// error of the lowest index; the others are still done. An exception of one of them is thrown on.
absl::Status ForEach(std::size_t count, std::size_t threads,
                     const std::function<absl::Status(std::size_t)>& work);

}  // namespace lockstep::controller
