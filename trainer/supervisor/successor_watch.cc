#include "trainer/supervisor/successor_watch.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace lockstep::train {

bool NameHistory::Note(const std::set<std::string>& addresses, SteadyTime now) {
  if (addresses.contains(own_)) was_own_ = true;
  // Before its own address, a name may have that of the pod before.
  if (!was_own_ || addresses.empty() || addresses.contains(own_)) {
    others_since_.reset();
    return false;
  }
  if (!others_since_) others_since_ = now;
  return now - *others_since_ >= after_;
}

SuccessorWatch::SuccessorWatch(std::string host, const std::string& own, Pipe pipe,
                               const Clock& clock, SuccessorWatchOptions options)
    : host_(std::move(host)),
      clock_(clock),
      options_(std::move(options)),
      history_(own, options_.after),
      pipe_(std::move(pipe)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void SuccessorWatch::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    if (history_.Note(options_.addresses_of(host_), clock_.SteadyNow())) {
      pipe_.write.Close();
      return;
    }
    wake.wait_for(lock, stop, options_.every, [] { return false; });
  }
}

}  // namespace lockstep::train
