// The objects of an in-memory API server: their versions, how they end, and what becomes of the
// dependents of an owner that has ended. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "operator/kube/object.h"
#include "operator/local/watch_history.h"

namespace lockstep::local {

class MemoryStore {
 public:
  using Objects = std::map<kube::Key, StoredObject>;
  using Resource = std::string;
  static Resource ResourceOf(const kube::Kind& kind) { return kind.group + "/" + kind.plural; }

  // Keeps the last `history` changes for watches. Calls `on_change` after each change.
  MemoryStore(const Clock& clock, std::size_t history, std::function<void()> on_change)
      : clock_(clock), on_change_(std::move(on_change)), history_(history) {}

  const Objects& All(const Resource& resource) { return resources_[resource]; }
  // Returns null if there is no such object.
  StoredObject Find(const Resource& resource, const kube::Key& key) const;
  const WatchHistory& history() const { return history_; }

  // Stores the object under its key and the next version, and returns what is stored. An object
  // that is being deleted and that nothing holds any longer is removed after that.
  StoredObject Put(const Resource& resource, kube::Object object);

  // These require that the object exists.
  // Begins its deletion. It goes at once, unless finalizers hold it or, for a pod, its kubelet has
  // yet to confirm. No-op if the deletion has begun.
  void Delete(const Resource& resource, const kube::Key& key);
  // Removes it without a grace period. Finalizers still hold it.
  void DeleteNow(const Resource& resource, const kube::Key& key);

  bool has_dead_owners() const { return !dead_uids_.empty(); }
  // Takes one owner that has ended. Deletes its dependents that have no other living owner, and
  // drops it from those that have. Requires has_dead_owners().
  void CollectDependents();

 private:
  void Remove(const Resource& resource, const kube::Key& key);
  void Record(WatchHistory::Change change);
  void DropOwner(const Resource& resource, const kube::Object& object, const std::string& dead_uid);

  const Clock& clock_;
  const std::function<void()> on_change_;
  std::map<Resource, Objects> resources_;
  WatchHistory history_;
  std::set<std::string> uids_;         // of all existing objects
  std::deque<std::string> dead_uids_;  // owners whose dependents are to be collected
};

}  // namespace lockstep::local
