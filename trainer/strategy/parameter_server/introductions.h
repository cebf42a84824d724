// Bounds what callers cost that have not proved yet that they know the job's token.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "base/clock.h"
#include "trainer/rendezvous/guest_list.h"

namespace lockstep::train {

struct IntroductionLimits {
  std::size_t at_once = 64;  // each holds a thread
  // Of a caller that answers its challenge. A worker on a loaded host may need a second.
  Duration patience = std::chrono::seconds(5);
};

// A connection has one introduction at a time, as those of workers do. When there are as many as
// may be, a newcomer takes the place of another as guest_list.h says. Thread-safe.
class Introductions {
 public:
  explicit Introductions(IntroductionLimits limits);

  // One caller's introduction: from its stream's beginning to its acceptance or refusal.
  class Pending {
   public:
    // Requires: both outlive this.
    Pending(Introductions& all, grpc::ServerContext& caller);
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    // False: there is no place. The caller may come again.
    bool may_begin() const { return may_begin_; }
    // The caller has proved that it knows the token.
    void NoteProof();

   private:
    Introductions& all_;
    GuestList::Id id_ = 0;
    bool may_begin_ = false;
  };

  // Counts a caller that does not know the token. Logs the count, at most every 10 s.
  void CountRefusal();

 private:
  struct Guest {
    grpc::ServerContext* caller = nullptr;
    std::string connection;
    SteadyTime deadline;
  };

  bool Admit(GuestList::Id id, grpc::ServerContext& caller);
  void CancelLate(const std::stop_token& stop);

  const IntroductionLimits limits_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable_any changed_;
  GuestList::Id last_id_ = 0;
  GuestList places_;
  std::map<GuestList::Id, Guest> guests_;  // also those that have just lost their place
  std::set<std::string> connections_;      // of guests_
  std::int64_t refusals_ = 0;
  SteadyTime next_log_{};
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace lockstep::train
