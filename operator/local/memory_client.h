// An in-memory Kubernetes API server, as far as an operator can tell; `lockstep run` uses it. A
// single counter provides resource versions, status is a subresource, dependents of a deleted owner
// are garbage-collected in the background, and a pod bound to a node stays until its kubelet
// confirms its deletion.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "operator/kube/client.h"
#include "operator/local/list_snapshots.h"
#include "operator/local/memory_store.h"
#include "operator/local/object_filter.h"
#include "operator/local/random_names.h"

namespace lockstep::local {

// Thread-safe. All watches must have returned before destruction.
class MemoryClient final : public kube::Client {
 public:
  struct Options {
    std::size_t history = 4096;    // changes kept for watches; an older version: OutOfRange
    std::string node_name;         // the only node, to which each pod is bound at once; empty: none
    bool collects_garbage = true;  // false: dependents of a deleted owner stay
    std::optional<std::uint64_t> seed = {};  // of uids and generated names; absent: random
  };
  explicit MemoryClient(const Clock& clock) : MemoryClient(clock, Options()) {}
  MemoryClient(const Clock& clock, Options options);
  ~MemoryClient() override;
  MemoryClient(const MemoryClient&) = delete;
  MemoryClient& operator=(const MemoryClient&) = delete;

  absl::StatusOr<kube::Object> Get(const kube::Kind& kind, const kube::Key& key) override;
  // All pages show the same instant. A continue token can be used once; OutOfRange if it has
  // expired.
  absl::StatusOr<kube::Page> List(const kube::Kind& kind,
                                  const kube::ListOptions& options) override;
  // With an empty version or "0", reports all existing objects as kAdded first.
  absl::Status Watch(const kube::Kind& kind, const kube::WatchOptions& options,
                     std::stop_token stop,
                     const std::function<void(kube::WatchEvent)>& on_event) override;
  absl::StatusOr<kube::Object> Create(const kube::Kind& kind, const kube::Object& object) override;
  absl::StatusOr<kube::Object> Update(const kube::Kind& kind, const kube::Object& object) override;
  absl::StatusOr<kube::Object> UpdateStatus(const kube::Kind& kind,
                                            const kube::Object& object) override;
  absl::Status Delete(const kube::Kind& kind, const kube::Key& key,
                      const kube::Preconditions& expected) override;
  absl::Status ForceDelete(const kube::Kind& kind, const kube::Key& key,
                           const kube::Preconditions& expected) override;

  // The kubelet confirms that the processes of a pod that is being deleted are gone. NotFound if
  // there is no such pod.
  absl::Status ConfirmDeleted(const kube::Key& pod, const std::string& uid);

  // Returns what watches of all kinds together report after this version, in order. OutOfRange as
  // for a watch.
  absl::StatusOr<std::vector<kube::WatchEvent>> EventsAfter(std::uint64_t version);

 private:
  // These require mutex_.
  absl::StatusOr<StoredObject> FindForWrite(const kube::Kind& kind, const char* verb,
                                            const kube::Object& object);
  absl::Status CheckDelete(const kube::Kind& kind, const kube::Key& key,
                           const kube::Preconditions& expected);
  std::vector<kube::WatchEvent> Present(const kube::Kind& kind, const ObjectFilter& filter);

  void CollectorLoop(std::stop_token stop);

  const Clock& clock_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  MemoryStore store_;
  ListSnapshots snapshots_;
  RandomNames names_;
  std::jthread collector_;
};

}  // namespace lockstep::local
