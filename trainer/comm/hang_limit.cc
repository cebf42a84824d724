#include "trainer/comm/hang_limit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "api/v1/names.h"
#include "base/log.h"

namespace lockstep::train {

HangLimit::HangLimit(std::string what, Duration limit)
    : watching_([this, what = std::move(what), limit] { Watch(what, limit); }) {}

HangLimit::~HangLimit() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ended_.notify_one();
  watching_.join();
}

void HangLimit::Watch(const std::string& what, Duration limit) {
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, limit, [this] { return has_ended_; })) return;
  LogError(fmt::format("{} has not returned within {} s; this process ends, so that another can "
                       "take its place",
                       what, std::chrono::duration<double>(limit).count()),
           {{"exitCode", api::kExitPeerLost}});
  ::_exit(api::kExitPeerLost);  // a destructor might wait for what hangs
}

}  // namespace lockstep::train
