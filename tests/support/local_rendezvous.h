// A rendezvous between the threads of one test, whose generations the test can end.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "trainer/rendezvous/rendezvous.h"

namespace lockstep::train {

class LocalRendezvousHub {
 public:
  explicit LocalRendezvousHub(int world) : members_(static_cast<std::size_t>(world)) {}
  // Returns a client for one rank. A second client for the same rank is its restarted process.
  std::unique_ptr<Rendezvous> Client(int rank);
  // Ends the generation for everybody, as the loss of a process does.
  void EndGeneration(const std::string& reason);
  void RequestStop() {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  std::uint64_t generation() {
    const std::lock_guard lock(mutex_);
    return generation_;
  }

 private:
  friend class LocalRendezvousClient;
  struct Place {
    Member member;
    bool waiting = false, finished = false;
    Rendezvous::EndCallback on_end;
  };
  absl::StatusOr<Membership> Join(int rank, std::int64_t step);
  absl::Status Finish(int rank);
  void EndLocked(const std::string& reason, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Place> members_;
  std::uint64_t generation_ = 0;
  bool live_ = false, stop_ = false;
  int calling_ = 0;  // threads that call the members' on_end, without mutex_
  std::map<std::pair<std::uint64_t, std::string>, std::string> store_;
};

}  // namespace lockstep::train
