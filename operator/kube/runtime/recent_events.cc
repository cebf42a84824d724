#include "operator/kube/runtime/recent_events.h"

#include <algorithm>
#include <utility>

namespace lockstep::kube {

std::optional<RecentEvents::Series> RecentEvents::Find(const Key& key, SteadyTime now) {
  EraseAged(now);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  return found->second.entry->series;
}

void RecentEvents::Remember(const std::string& namespace_name, const Key& key, Series series,
                            SteadyTime now) {
  if (const auto known = by_key_.find(key); known != by_key_.end()) Erase(known);
  const auto own = spaces_.find(namespace_name);
  if (own != spaces_.end() && own->second.size() >= limits_.of_namespace) {
    EraseOldest(own);
  } else if (by_key_.size() >= limits_.in_all) {
    EraseOldest(std::ranges::max_element(spaces_, {},
                                         [](const auto& space) { return space.second.size(); }));
  }
  const auto space = spaces_.try_emplace(namespace_name).first;
  space->second.push_back({key, std::move(series), now});
  by_key_.emplace(key, Place{space, std::prev(space->second.end())});
}

void RecentEvents::Forget(const std::string& uid) {
  auto at = by_key_.lower_bound({uid, 0});
  while (at != by_key_.end() && at->first.uid == uid) Erase(at++);
}

void RecentEvents::Erase(std::map<Key, Place>::iterator at) {
  const Place place = at->second;
  by_key_.erase(at);
  place.space->second.erase(place.entry);
  if (place.space->second.empty()) spaces_.erase(place.space);
}

void RecentEvents::EraseOldest(Namespaces::iterator space) {
  Erase(by_key_.find(space->second.front().key));
}

void RecentEvents::EraseAged(SteadyTime now) {
  for (auto space = spaces_.begin(); space != spaces_.end();) {
    const auto current = space++;  // erased with its last entry
    std::size_t left = current->second.size();
    while (left > 0 && now - current->second.front().last > limits_.age) {
      EraseOldest(current);
      --left;
    }
  }
}

}  // namespace lockstep::kube
