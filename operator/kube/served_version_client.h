// A Client decorator that finds out in which version the API server serves a group.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "operator/kube/client.h"

namespace lockstep::kube {

// Callers name the kinds of one group in its newest version. The calls go to the version that the
// server serves: a call that is answered with 404 is repeated in the other versions, and the one
// that answers is taken from then on. So an upgrade of the group's CRDs, while this process runs or
// not, is noticed by the first call after it. Calls for other groups are passed on as they are.
//
// Objects arrive in the version that is served, so whoever reads them must know the fields of every
// version. An object that is created is made in the newest version, and converted; one that is
// updated is sent in the version in which it was read. Thread-safe.
class ServedVersionClient final : public Client {
 public:
  // Returns an object of the newest version with the fields of kind.version, an older one. Its
  // apiVersion is set afterwards.
  using Convert = std::function<Object(Object object, const Kind& kind)>;

  // `versions`: the newest first; at least one. The client must outlive this object.
  ServedVersionClient(Client& client, std::string group, std::vector<std::string> versions,
                      Convert convert);

  absl::StatusOr<Object> Get(const Kind& kind, const Key& key) override;
  absl::StatusOr<Object> GetMetadata(const Kind& kind, const Key& key) override;
  absl::StatusOr<Page> List(const Kind& kind, const ListOptions& options) override;
  absl::Status Watch(const Kind& kind, const WatchOptions& options, std::stop_token stop,
                     const std::function<void(WatchEvent)>& on_event) override;
  absl::StatusOr<Object> Create(const Kind& kind, const Object& object) override;
  // Unavailable if the object exists and its version is no longer served: read it again.
  absl::StatusOr<Object> Update(const Kind& kind, const Object& object) override;
  absl::StatusOr<Object> UpdateStatus(const Kind& kind, const Object& object) override;
  absl::Status Delete(const Kind& kind, const Key& key, const Preconditions& expected) override;
  absl::Status ForceDelete(const Kind& kind, const Key& key,
                           const Preconditions& expected) override;

 private:
  // Calls call(kind) with the version that is served.
  template <typename Call>
  auto InServedVersion(const Kind& kind, const Call& call);
  // Calls call(kind) with the version of `object`.
  template <typename Call>
  absl::StatusOr<Object> InItsVersion(const Kind& kind, const Object& object, const Call& call);
  void Take(std::size_t version);

  Client& client_;
  const std::string group_;
  const std::vector<std::string> versions_;
  const Convert convert_;
  std::atomic<std::size_t> served_{0};  // the index in versions_ of the one that answered last
};

}  // namespace lockstep::kube
