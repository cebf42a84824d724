// Remembers recent events, so that a recurring one becomes a series. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace lockstep::kube {

// Anyone who may create objects decides how many events there are, so their number is limited per
// namespace and in total. At a limit the oldest event is dropped: of the same namespace, or of the
// namespace that has the most.
class RecentEvents {
 public:
  // Two events are the same if they concern the same object and their contents have the same
  // digest.
  struct Key {
    std::string uid;
    std::uint64_t digest = 0;
    auto operator<=>(const Key&) const = default;
  };
  // What a series update needs of the Event on the server.
  struct Series {
    std::string name, resource_version, event_time;
    int count = 1;
  };
  struct Limits {
    std::size_t of_namespace = 512, in_all = 4096;
    Duration age = std::chrono::minutes(10);
  };

  explicit RecentEvents(const Limits& limits) : limits_(limits) {}

  // Returns nullopt if there is none younger than limits.age.
  std::optional<Series> Find(const Key& key, SteadyTime now);
  void Remember(const std::string& namespace_name, const Key& key, Series series, SteadyTime now);
  // Drops all events of an object.
  void Forget(const std::string& uid);
  std::size_t size() const { return by_key_.size(); }

 private:
  struct Entry {
    Key key;
    Series series;
    SteadyTime last;
  };
  using Entries = std::list<Entry>;                   // of one namespace, oldest first
  using Namespaces = std::map<std::string, Entries>;  // none is empty
  struct Place {
    Namespaces::iterator space;
    Entries::iterator entry;
  };

  void Erase(std::map<Key, Place>::iterator at);
  void EraseOldest(Namespaces::iterator space);
  void EraseAged(SteadyTime now);

  const Limits limits_;
  Namespaces spaces_;
  std::map<Key, Place> by_key_;
};

}  // namespace lockstep::kube
