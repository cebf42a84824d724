#include "trainer/supervisor/successor_watch.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::train {

bool NameHistory::UpdateSuccessor(const std::set<std::string>& addresses, SteadyTime now) {
  if (addresses.contains(own_)) was_own_ = true;
  // Before its own address, a name may have that of the pod before.
  if (!was_own_ || addresses.empty() || addresses.contains(own_)) {
    others_since_.reset();
    return false;
  }
  if (!others_since_) others_since_ = now;
  return now - *others_since_ >= after_;
}

// All that the thread uses, as it may outlive the rest of the process's objects.
struct SuccessorWatch::Search {
  std::string host;
  SuccessorWatchOptions options;
  NameHistory history;
  Descriptor changed;  // closed to tell of a successor
  std::mutex mutex = {};
  std::condition_variable wake = {};
  bool stops = false;
};

SuccessorWatch::SuccessorWatch(std::string host, const std::string& own, Pipe pipe,
                               const SuccessorWatchOptions& options)
    : changed_(std::move(pipe.read)),
      search_(new Search{.host = std::move(host),
                         .options = options,
                         .history = NameHistory(own, options.after),
                         .changed = std::move(pipe.write)}) {
  std::thread([search = search_] { Run(*search); }).detach();
}

SuccessorWatch::~SuccessorWatch() {
  const std::lock_guard lock(search_->mutex);
  search_->stops = true;
  search_->wake.notify_all();
}

void SuccessorWatch::Run(Search& search) {
  std::unique_lock lock(search.mutex);
  while (!search.stops) {
    lock.unlock();
    const std::set<std::string> addresses = search.options.addresses_of(search.host);
    lock.lock();
    if (search.history.UpdateSuccessor(addresses, std::chrono::steady_clock::now())) {
      search.changed.Close();
      return;
    }
    search.wake.wait_for(lock, search.options.every, [&search] { return search.stops; });
  }
}

}  // namespace lockstep::train
