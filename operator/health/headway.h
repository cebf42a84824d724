// Whether the threads that talk to the API server still do so.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "api/base/clock.h"
#include "operator/kube/instrumented_client.h"

namespace lockstep::health {

// Notes the signs of life of each kind of object that a thread is expected to follow: a call that
// ended, well or not (an API server that is down is no reason to restart this process), a watch
// that began, an event. Thread-safe.
class Headway final : public kube::ClientObserver {
 public:
  explicit Headway(const Clock& clock);  // which outlives it

  // From now on a thread is expected to talk about this kind at least every `limit`.
  void Expect(const kube::Kind& kind, Duration limit);

  // Error: which kinds have been silent for longer than expected.
  absl::Status Check() const;
  // Since a call about the kind last went well; nothing if none did.
  std::optional<Duration> SinceSuccess(const kube::Kind& kind) const;
  // What the last call that failed said, if none went well since; else empty.
  std::string LastError(const kube::Kind& kind) const;

  void OnCall(kube::Verb verb, const kube::Kind& kind, const absl::Status& result,
              Duration took) override;
  void OnWatchStart(const kube::Kind& kind) override;
  void OnWatchEvent(const kube::Kind& kind) override;

 private:
  struct Signs {
    std::optional<Duration> limit;
    SteadyTime last;
    std::optional<SteadyTime> last_success;
    std::string error;
  };

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Signs> signs_;  // by plural; guarded by mutex_
};

}  // namespace lockstep::health
