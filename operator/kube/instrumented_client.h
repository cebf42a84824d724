// A Client decorator that reports every call to observers.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "operator/kube/client.h"

namespace lockstep::kube {

enum class Verb { kGet, kList, kWatch, kCreate, kUpdate, kUpdateStatus, kDelete };
// Returns RBAC's name for the verb; UpdateStatus, RBAC's "update" of a subresource, is
// "update-status".
const char* VerbName(Verb verb);

// Implementations must be thread-safe. Methods run on the thread that made the call and delay it.
// `namespace_name` is the namespace of the object, list or watch; empty for all namespaces and for
// cluster-scoped kinds.
class ClientObserver {
 public:
  virtual ~ClientObserver() = default;
  // Called when a call ends. A watch that the caller stopped ends with Cancelled.
  virtual void OnCall(Verb verb, const Kind& kind, const std::string& namespace_name,
                      const absl::Status& result, Duration took) = 0;
  virtual void OnWatchStart(const Kind&, const std::string& /*namespace_name*/) {}
  virtual void OnWatchEvent(const Kind&, const std::string& /*namespace_name*/) {}
};

// Thread-safe. The client, the clock and the observers must outlive this object.
class InstrumentedClient final : public Client {
 public:
  InstrumentedClient(Client& client, const Clock& clock, std::vector<ClientObserver*> observers);

  absl::StatusOr<Object> Get(const Kind& kind, const Key& key) override;
  absl::StatusOr<Object> GetMetadata(const Kind& kind, const Key& key) override;
  absl::StatusOr<Page> List(const Kind& kind, const ListOptions& options) override;
  absl::Status Watch(const Kind& kind, const WatchOptions& options, std::stop_token stop,
                     const std::function<void(WatchEvent)>& on_event) override;
  absl::StatusOr<Object> Create(const Kind& kind, const Object& object) override;
  absl::StatusOr<Object> Update(const Kind& kind, const Object& object) override;
  absl::StatusOr<Object> UpdateStatus(const Kind& kind, const Object& object) override;
  absl::Status Delete(const Kind& kind, const Key& key, const Preconditions& expected) override;
  absl::Status ForceDelete(const Kind& kind, const Key& key,
                           const Preconditions& expected) override;

 private:
  template <typename Call>
  auto Observed(Verb verb, const Kind& kind, const std::string& namespace_name, const Call& call);
  void Tell(Verb verb, const Kind& kind, const std::string& namespace_name,
            const absl::Status& result, SteadyTime start) const;

  Client& client_;
  const Clock& clock_;
  const std::vector<ClientObserver*> observers_;
};

}  // namespace lockstep::kube
