// Whether the threads that talk to the API server still do so.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "operator/kube/instrumented_client.h"

namespace lockstep::health {

// Notes the signs of life of what threads are expected to follow, each a kind of object in a
// namespace (empty: in all): a call that ended, well or not (an API server that is down is no
// reason to restart this process), a watch that began, an event. Of what is not expected nothing is
// kept. Thread-safe.
class Watchdog final : public kube::ClientObserver {
 public:
  explicit Watchdog(const Clock& clock);  // which outlives it

  // From now on a thread is expected to talk about this at least every `limit`.
  void Expect(const kube::Kind& kind, const std::string& namespace_name, Duration limit);

  // Error: what has been silent for longer than expected.
  absl::Status Check() const;
  // Since a call about this last went well; nothing if none did.
  std::optional<Duration> SinceSuccess(const kube::Kind& kind,
                                       const std::string& namespace_name) const;
  // What the last call that failed said, if none went well since; else empty.
  std::string LastError(const kube::Kind& kind, const std::string& namespace_name) const;

  void OnCall(kube::Verb verb, const kube::Kind& kind, const std::string& namespace_name,
              const absl::Status& result, Duration took) override;
  void OnWatchStart(const kube::Kind& kind, const std::string& namespace_name) override;
  void OnWatchEvent(const kube::Kind& kind, const std::string& namespace_name) override;

 private:
  struct Signs {
    Duration limit{};
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
