#include "trainer/rendezvous/gate/guest_list.h"

#include <algorithm>

namespace lockstep::train {
namespace {

// The most processes of a pod: one per device.
constexpr std::size_t kFairShare = 16;
// With room for 128, 256 newcomers per second get at least this long, whatever strangers do.
constexpr Duration kLeastPatience = std::chrono::milliseconds(500);
constexpr Duration kLongestStay = std::chrono::seconds(10);
// In a crowd each member is served later than the one before, so it needs longer.
constexpr int kPatienceFactor = 4;
// Longer times are not counted: such a caller slept, or came to ask for a nonce, which says nothing
// about the leader's load.
constexpr Duration kMostNeeded = std::chrono::seconds(1);

}  // namespace

GuestList::Verdict GuestList::Admit(Id id, const std::string& address, SteadyTime now) {
  Verdict verdict{.admitted = true};
  if (guests_.size() >= most_) {
    verdict.evicted = WhoGoesFor(address, now);
    if (!verdict.evicted) return {};
    Remove(*verdict.evicted);
  }
  guests_.emplace(id, Guest{address, now});
  std::set<Id>& of_address = by_address_[address];
  by_count_.erase({of_address.size(), address});
  of_address.insert(id);
  by_count_.emplace(of_address.size(), address);
  return verdict;
}

std::optional<GuestList::Id> GuestList::WhoGoesFor(const std::string& address,
                                                   SteadyTime now) const {
  const Duration patience = std::max(kPatienceFactor * needed_, kLeastPatience);
  const auto& [most, busiest] = *by_count_.rbegin();
  const Id of_busiest = *by_address_.at(busiest).begin();
  if (now - guests_.at(of_busiest).since >= patience) return of_busiest;
  const auto own = by_address_.find(address);
  const std::size_t count = own == by_address_.end() ? 0 : own->second.size();
  if (most > kFairShare && most > count + 1) return of_busiest;
  const auto& [oldest, guest] = *guests_.begin();
  if (now - guest.since >= patience) return oldest;
  return std::nullopt;
}

void GuestList::Prove(Id id, SteadyTime now) {
  const auto at = guests_.find(id);
  if (at == guests_.end()) return;
  needed_ = std::max(std::min(now - at->second.since, kMostNeeded), needed_ - needed_ / 8);
  Remove(id);
}

void GuestList::Remove(Id id) {
  const auto at = guests_.find(id);
  if (at == guests_.end()) return;
  const std::string& address = at->second.address;
  const auto of_address = by_address_.find(address);
  by_count_.erase({of_address->second.size(), address});
  of_address->second.erase(id);
  if (of_address->second.empty()) {
    by_address_.erase(of_address);
  } else {
    by_count_.emplace(of_address->second.size(), address);
  }
  guests_.erase(at);
}

std::vector<GuestList::Id> GuestList::Overdue(SteadyTime now) const {
  std::vector<Id> overdue;
  for (const auto& [id, guest] : guests_) {
    if (now - guest.since < kLongestStay) break;
    overdue.push_back(id);
  }
  return overdue;
}

}  // namespace lockstep::train
