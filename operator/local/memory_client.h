// An in-memory Kubernetes API server, as far as an operator can tell; `lockstep run` uses it. A
// single counter provides resource versions, status is a subresource, dependents of a deleted owner
// are garbage-collected in the background, and a pod bound to a node stays until its kubelet
// confirms its deletion.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "operator/kube/client.h"
#include "operator/local/label_selector.h"

namespace lockstep::local {

// Thread-safe. All watches must have returned before destruction.
class MemoryClient final : public kube::Client {
 public:
  struct Options {
    std::size_t history = 4096;  // changes kept for watches; an older version: OutOfRange
    std::string node_name;       // the only node, to which each pod is bound at once; empty: none
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
                      const std::string& uid) override;
  absl::Status ForceDelete(const kube::Kind& kind, const kube::Key& key,
                           const std::string& uid) override;

  // The kubelet confirms that the processes of a pod that is being deleted are gone. NotFound if
  // there is no such pod.
  absl::Status ConfirmDeleted(const kube::Key& pod, const std::string& uid);

 private:
  using Stored = std::shared_ptr<const kube::Object>;
  using Objects = std::map<kube::Key, Stored>;
  using Resource = std::string;  // "group/plural"

  struct Change {
    Resource resource;
    Stored before, after;  // null: the object did not exist, or no longer exists
    Stored last;           // sent to a watcher whose filter the object has left
  };
  struct Filter {
    std::string namespace_name;
    LabelSelector selector;
    bool Matches(const Stored& object) const;
  };
  struct Snapshot {
    std::string token;
    std::uint64_t version = 0;
    std::deque<Stored> rest;
  };

  // These require mutex_.
  absl::StatusOr<kube::Page> NextPage(Snapshot snapshot, int limit);
  absl::StatusOr<Objects::iterator> FindForWrite(const kube::Kind& kind, const char* verb,
                                                 const kube::Object& object);
  absl::StatusOr<Objects::iterator> FindForDelete(const kube::Kind& kind, const kube::Key& key,
                                                  const std::string& uid);
  Stored Commit(const Resource& resource, const kube::Key& key, kube::Object object);
  void Remove(const Resource& resource, Objects::iterator it);
  void EndNow(const Resource& resource, Objects::iterator it);
  void BeginDelete(const Resource& resource, Objects::iterator it);
  void Record(Change change);
  absl::StatusOr<std::uint64_t> WatchStart(const std::string& version) const;
  // Returns the events of `resource` after `cursor` and advances it. OutOfRange if the history no
  // longer contains it.
  absl::StatusOr<std::vector<kube::WatchEvent>> EventsAfter(const Resource& resource,
                                                            const Filter& filter,
                                                            std::uint64_t& cursor) const;
  void CollectChildrenOf(const std::string& uid);
  std::string NewUid();
  std::string NewSuffix();

  void CollectorLoop(std::stop_token stop);

  const Clock& clock_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<Resource, Objects> resources_;
  std::set<std::string> uids_;  // of all existing objects
  std::uint64_t version_ = 1;   // of the last change; 0 is reserved: a watch from 0 starts anywhere
  std::deque<Change> history_;  // the last one has version_
  std::list<Snapshot> snapshots_;      // of paged lists, oldest first
  std::deque<std::string> dead_uids_;  // owners whose dependents are to be collected
  std::mt19937_64 random_;
  std::jthread collector_;
};

}  // namespace lockstep::local
