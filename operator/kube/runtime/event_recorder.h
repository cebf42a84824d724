// Records events about objects for users: events.k8s.io/v1. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/client.h"
#include "operator/kube/runtime/recent_events.h"

namespace lockstep::kube {

enum class EventType { kNormal, kWarning };

// If the same event about the same object recurs within ten minutes, its series is counted up
// instead of creating another Event; RecentEvents limits how many are remembered for that. Events
// are best effort: failures are logged and never returned.
class EventRecorder {
 public:
  // `controller` is a qualified name ("training.lockstep.dev/operator"), `instance` e.g. a pod's
  // name.
  EventRecorder(Client& client, const Clock& clock, std::string controller, std::string instance);

  // `action` is what was done or tried, in PascalCase; `note` is truncated to 1,024 bytes.
  void Record(const Kind& kind, const Identity& regarding, EventType type,
              const std::string& reason, const std::string& action, const std::string& note);

  // Forgets the events of an object that is gone.
  void Forget(const std::string& uid);

 private:
  Object MakeEvent(const Kind& kind, const Identity& regarding, EventType type,
                   const std::string& reason, const std::string& action, const std::string& note);
  std::optional<RecentEvents::Series> Find(const RecentEvents::Key& same, SteadyTime now);
  void Remember(const RecentEvents::Key& same, const Object& event, const std::string& event_time,
                int count, SteadyTime now);

  Client& client_;
  const Clock& clock_;
  const std::string controller_, instance_;
  std::mutex mutex_;
  RecentEvents recent_;                // guarded by mutex_
  std::atomic<unsigned> sequence_{0};  // distinguishes names made at the same instant
};

}  // namespace lockstep::kube
