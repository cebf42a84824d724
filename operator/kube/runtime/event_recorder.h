// Tells users what happened to an object: events.k8s.io/v1. Thread-safe.
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

// The same event about the same object again within ten minutes counts up a series instead of
// making another Event; of very many events only the latest are known for that. Events are best
// effort: a failure is logged and never returned.
class EventRecorder {
 public:
  // `controller` is a qualified name ("training.lockstep.dev/operator"), `instance` e.g. a pod.
  EventRecorder(Client& client, const Clock& clock, std::string controller, std::string instance);

  // `action` is what was done or tried, in PascalCase; `note` is cut to 1,024 bytes.
  void Record(const Kind& kind, const Identity& regarding, EventType type,
              const std::string& reason, const std::string& action, const std::string& note);

  // The object is gone, so nothing more is recorded of it.
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
  std::atomic<unsigned> sequence_{0};  // keeps names of one instant apart
};

}  // namespace lockstep::kube
