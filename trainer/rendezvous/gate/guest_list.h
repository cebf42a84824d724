// Decides which callers of the rendezvous may stay connected before they have proven that they
// belong to the job. Pure: no sockets, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace lockstep::train {

// Tens of thousands of members may connect at once after a restart, perhaps all from one address
// behind a NAT, so there is no limit per address. Strangers may be as many, but prove nothing.
// While there is room, everyone is admitted. When full, a newcomer evicts a guest that has had
// several times as long as recent members needed. If an address has more guests than a pod has
// processes, its oldest guest is evicted at once for a newcomer from another address. A member that
// finds no room retries within half a second, which costs it more than waiting: allow at least as
// many guests as the gang has members. Not thread-safe.
class GuestList {
 public:
  using Id = std::uint64_t;

  explicit GuestList(std::size_t most) : most_(most) {}
  // Those who are there stay, also if they are more.
  void SetMost(std::size_t most) { most_ = most; }

  struct Verdict {
    bool admitted = false;
    std::optional<Id> evicted = std::nullopt;  // removed to make room
  };
  // Requires: `id` is greater than every earlier one.
  Verdict Admit(Id id, const std::string& address, SteadyTime now);
  // Removes a guest that has proven that it belongs to the job. No-op if `id` is not a guest.
  void Prove(Id id, SteadyTime now);
  // Removes a guest that has left. No-op if `id` is not a guest.
  void Remove(Id id);
  // Returns the guests whose time is up (10 s), whether or not there is room.
  std::vector<Id> Overdue(SteadyTime now) const;

  bool contains(Id id) const { return guests_.contains(id); }
  std::size_t size() const { return guests_.size(); }

 private:
  struct Guest {
    std::string address;
    SteadyTime since;
  };
  std::optional<Id> WhoGoesFor(const std::string& address, SteadyTime now) const;

  std::size_t most_;
  std::map<Id, Guest> guests_;  // oldest first
  std::map<std::string, std::set<Id>> by_address_;
  std::set<std::pair<std::size_t, std::string>>
      by_count_;       // (guests, address): the busiest is last
  Duration needed_{};  // time that recent members needed; decays
};

}  // namespace lockstep::train
