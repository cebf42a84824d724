// Detects threads that no longer talk to the API server.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "operator/kube/instrumented_client.h"

namespace lockstep::health {

// Records signs of life of threads that each follow a kind of object in a namespace (empty: all
// namespaces): the end of a list or a watch, successful or not (an API server that is down is no
// reason to restart this process), the start of a watch, an event. A watch that ends because it was
// silent (kube::IsSilent) is no such sign, nor is the start of the next one: something may accept
// watches and pass nothing on. Other calls come from other threads. Ignores kinds and namespaces
// that no thread is expected to follow. Thread-safe.
class Watchdog final : public kube::ClientObserver {
 public:
  explicit Watchdog(const Clock& clock);  // The clock must outlive this object.

  // From now on, expects a sign of life for this kind and namespace at least every `limit`.
  void Expect(const kube::Kind& kind, const std::string& namespace_name, Duration limit);
  // The same for a thread that watches nothing: any of its calls is a sign of life.
  void ExpectCalls(const kube::Kind& kind, const std::string& namespace_name, Duration limit);

  // Unavailable names everything that has been silent for longer than expected.
  absl::Status Check() const;
  // Returns the time since the last successful call that is a sign of life; nullopt if there was
  // none.
  std::optional<Duration> SinceSuccess(const kube::Kind& kind,
                                       const std::string& namespace_name) const;
  // Returns the message of the last failed one; empty if one has succeeded since.
  std::string LastError(const kube::Kind& kind, const std::string& namespace_name) const;

  void OnCall(kube::Verb verb, const kube::Kind& kind, const std::string& namespace_name,
              const absl::Status& result, Duration took) override;
  void OnWatchStart(const kube::Kind& kind, const std::string& namespace_name) override;
  void OnWatchEvent(const kube::Kind& kind, const std::string& namespace_name) override;

 private:
  struct Signs {
    Duration limit{};
    bool any_call = false;    // as by ExpectCalls
    bool was_silent = false;  // the latest watch, to its end
    SteadyTime last;
    std::optional<SteadyTime> last_success;
    std::string error;
  };

  const Clock& clock_;
  mutable std::mutex mutex_;
  // By plural and namespace; guarded by mutex_.
  std::map<std::pair<std::string, std::string>, Signs> signs_;
};

}  // namespace lockstep::health
