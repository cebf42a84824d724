// Tells users what happened to an object: events.k8s.io/v1. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "api/base/clock.h"
#include "operator/kube/client.h"
#include "operator/kube/store.h"

namespace lockstep::kube {

enum class EventType { kNormal, kWarning };

// The same event about the same object again within ten minutes counts up a series instead of
// making another Event. Events are best effort: a failure is logged and never returned.
class EventRecorder {
 public:
  // `controller` is a qualified name ("training.lockstep.dev/operator"), `instance` e.g. a pod.
  EventRecorder(Client& client, const Clock& clock, std::string controller, std::string instance);

  // `action` is what was done or tried, in PascalCase; `note` is cut to 1,024 bytes.
  void Record(const Kind& kind, const Identity& regarding, EventType type,
              const std::string& reason, const std::string& action, const std::string& note);

 private:
  // What tells an Event on the server from the same one made anew; the rest is made again.
  struct Series {
    std::string name, resource_version, event_time;
    int count = 1;
    SteadyTime last;
  };
  Object MakeEvent(const Kind& kind, const Identity& regarding, EventType type,
                   const std::string& reason, const std::string& action, const std::string& note);
  std::optional<Series> Find(const std::string& same, SteadyTime now);
  void Remember(const std::string& same, const Object& event, const std::string& event_time,
                int count, SteadyTime now);

  Client& client_;
  const Clock& clock_;
  const std::string controller_, instance_;
  std::mutex mutex_;
  std::map<std::string, Series> recent_;  // guarded by mutex_
  SteadyTime next_sweep_;                 // guarded by mutex_; when the old ones go
  std::atomic<unsigned> sequence_{0};     // keeps names of one instant apart
};

}  // namespace lockstep::kube
