#include "trainer/strategy/generation_stop.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <utility>

namespace lockstep::train {
namespace {

// The stop flag is polled at this period: a signal handler cannot notify a condition variable.
constexpr auto kStopPoll = std::chrono::milliseconds(50);

}  // namespace

std::stop_token GenerationStop::Begin(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  generation_ = generation;
  cancel_ = std::stop_source();
  if (ended_generation_ >= generation) cancel_.request_stop();
  return cancel_.get_token();
}

void GenerationStop::Abort(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  ended_generation_ = std::max(ended_generation_, generation);
  if (ended_generation_ >= generation_) cancel_.request_stop();
}

std::jthread When(std::function<bool()> asked, std::function<void()> act) {
  return std::jthread([asked = std::move(asked), act = std::move(act)](std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      if (asked()) return act();
      wake.wait_for(lock, stop, kStopPoll, [] { return false; });
    }
  });
}

}  // namespace lockstep::train
