// Which callers of the rendezvous may stay before they have shown that they belong to the job.
// Pure: no sockets, no clock.
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

// Members of an honest gang come in crowds: tens of thousands at once after a restart, perhaps all
// from one address, behind a NAT. Strangers come in crowds too, but prove nothing. So there is no
// cap for each address. While there is room everybody is let in. Where there is none, who has had
// several times as long as the latest members needed goes for a newcomer; and of an address with
// more guests than a pod has processes, its oldest goes at once for a newcomer of another address.
// A member that finds no room calls again, at most half a second later, which costs it more than
// waiting: give a gang as many places as it has members.
class GuestList {
 public:
  using Id = std::uint64_t;

  explicit GuestList(std::size_t most) : most_(most) {}

  struct Verdict {
    bool admitted = false;
    std::optional<Id> evicted = std::nullopt;  // goes for the one that is admitted
  };
  // `id` is above every earlier one.
  Verdict Admit(Id id, const std::string& address, SteadyTime now);
  // It has shown that it belongs to the job. Nothing if it is no guest.
  void Prove(Id id, SteadyTime now);
  // It is gone. Nothing if it is no guest.
  void Remove(Id id);
  // Those that have had the longest time that anybody is given, room or not.
  std::vector<Id> Overdue(SteadyTime now) const;

  bool contains(Id id) const { return guests_.contains(id); }
  std::size_t size() const { return guests_.size(); }

 private:
  struct Guest {
    std::string address;
    SteadyTime since;
  };
  std::optional<Id> WhoGoesFor(const std::string& address, SteadyTime now) const;

  const std::size_t most_;
  std::map<Id, Guest> guests_;  // oldest first
  std::map<std::string, std::set<Id>> by_address_;
  std::set<std::pair<std::size_t, std::string>> by_count_;  // addresses, the busiest last
  Duration needed_{};                                       // by the latest members; falls slowly
};

}  // namespace lockstep::train
