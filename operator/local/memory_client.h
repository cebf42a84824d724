// A Kubernetes API server in memory, as far as an operator can tell: `lockstep run` has no other.
// One counter gives resource versions; status is a subresource; a deleted owner's objects are
// collected in the background; a pod bound to a node stays until its kubelet confirms.
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

// Thread-safe. Watches must have returned before it is destroyed.
class MemoryClient final : public kube::Client {
 public:
  struct Options {
    std::size_t history = 4096;  // changes kept for watches that come late; older: OutOfRange
    std::string node_name;       // the one node, which every pod is bound to at once; empty: none
  };
  explicit MemoryClient(const Clock& clock) : MemoryClient(clock, Options()) {}
  MemoryClient(const Clock& clock, Options options);
  ~MemoryClient() override;
  MemoryClient(const MemoryClient&) = delete;
  MemoryClient& operator=(const MemoryClient&) = delete;

  absl::StatusOr<kube::Object> Get(const kube::Kind& kind, const kube::Key& key) override;
  // Later pages are of the same instant as the first; a token is good for one use.
  absl::StatusOr<kube::Page> List(const kube::Kind& kind,
                                  const kube::ListOptions& options) override;
  // With an empty version: everything there is as kAdded, then what follows.
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

  // The kubelet's last word on a pod that is being deleted: its processes are gone.
  absl::Status ConfirmDeleted(const kube::Key& pod, const std::string& uid);

 private:
  using Stored = std::shared_ptr<const kube::Object>;
  using Objects = std::map<kube::Key, Stored>;
  using Resource = std::string;  // "group/plural"

  struct Change {
    Resource resource;
    Stored before, after;  // null: there was none, there is none
    Stored last;           // what a watcher that loses sight of the object is told
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

  // All below hold mutex_.
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
  // Events of `resource` after `cursor`, which moves on; OutOfRange if history has gone past it.
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
  std::set<std::string> uids_;         // of everything alive
  std::uint64_t version_ = 1;          // of the last change; a watch from 0 means from anywhere
  std::deque<Change> history_;         // the last one has version_
  std::list<Snapshot> snapshots_;      // of lists read in pages, oldest first
  std::deque<std::string> dead_uids_;  // whose children are to be collected
  std::mt19937_64 random_;
  std::jthread collector_;
};

}  // namespace lockstep::local
