// The events that were recorded of late, so that the same one again counts up a series. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace lockstep::kube {

// Whoever may create objects decides how many events there are. So their number has a limit, of a
// namespace and in all; where it is reached, the oldest goes: of the same namespace, or of the one
// that has the most.
class RecentEvents {
 public:
  // What makes two events the same: the object and a digest of what is said of it.
  struct Key {
    std::string uid;
    std::uint64_t digest = 0;
    auto operator<=>(const Key&) const = default;
  };
  // What tells an Event on the server from a later one that says the same.
  struct Series {
    std::string name, resource_version, event_time;
    int count = 1;
  };
  struct Limits {
    std::size_t of_namespace = 512, in_all = 4096;
    Duration age = std::chrono::minutes(10);
  };

  explicit RecentEvents(const Limits& limits) : limits_(limits) {}

  // Nothing if there is none that is younger than limits.age.
  std::optional<Series> Find(const Key& key, SteadyTime now);
  void Remember(const std::string& namespace_name, const Key& key, Series series, SteadyTime now);
  // All events of an object.
  void Forget(const std::string& uid);
  std::size_t size() const { return by_key_.size(); }

 private:
  struct Entry {
    Key key;
    Series series;
    SteadyTime last;
  };
  using Entries = std::list<Entry>;                   // of a namespace, the oldest first
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
