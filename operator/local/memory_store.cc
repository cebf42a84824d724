#include "operator/local/memory_store.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "operator/local/server_rules.h"

namespace lockstep::local {
namespace {

using kube::Key;
using kube::Object;

Object Stamped(Object object, std::uint64_t version) {
  object["metadata"]["resourceVersion"] = fmt::format("{}", version);
  return object;
}

Object OwnersOf(const Object& object) {
  return object["metadata"].value("ownerReferences", Object::array());
}

bool IsReleased(const Object& object) {
  return kube::IsBeingDeleted(object) && !HasFinalizers(object) &&
         kube::Int64Member(object["metadata"], "deletionGracePeriodSeconds") == 0;
}

}  // namespace

StoredObject MemoryStore::Find(const Resource& resource, const Key& key) const {
  const auto objects = resources_.find(resource);
  if (objects == resources_.end()) return nullptr;
  const auto it = objects->second.find(key);
  return it == objects->second.end() ? nullptr : it->second;
}

StoredObject MemoryStore::Put(const Resource& resource, Object object) {
  const std::uint64_t version = history_.next_version();
  const StoredObject after = std::make_shared<const Object>(Stamped(std::move(object), version));
  const Key key = kube::KeyOf(*after);
  StoredObject& slot = resources_[resource][key];
  WatchHistory::Change change{resource, slot, after, nullptr};
  if (slot != nullptr) {
    change.last = std::make_shared<const Object>(Stamped(*slot, version));
  } else {
    uids_.insert(kube::Uid(*after));
    // An owner that ended before its dependent was created.
    for (const Object& owner : OwnersOf(*after)) {
      const std::string uid = owner.value("uid", "");
      if (!uids_.contains(uid)) dead_uids_.push_back(uid);
    }
  }
  slot = after;
  Record(std::move(change));
  if (IsReleased(*after)) Remove(resource, key);
  return after;
}

void MemoryStore::Delete(const Resource& resource, const Key& key) {
  const StoredObject object = Find(resource, key);
  if (kube::IsBeingDeleted(*object)) return;
  const bool is_pod = resource == ResourceOf(kube::kPodKind);
  const std::int64_t grace = is_pod ? GraceSeconds(*object) : 0;
  if (grace == 0 && !HasFinalizers(*object)) return Remove(resource, key);
  Put(resource, TerminatingObject(*object, clock_.Now(), grace));
}

void MemoryStore::DeleteNow(const Resource& resource, const Key& key) {
  const StoredObject object = Find(resource, key);
  if (!HasFinalizers(*object)) return Remove(resource, key);
  Put(resource, TerminatingObject(*object, clock_.Now(), 0));
}

void MemoryStore::Remove(const Resource& resource, const Key& key) {
  auto node = resources_[resource].extract(key);
  const StoredObject before = std::move(node.mapped());
  const std::string uid = kube::Uid(*before);
  uids_.erase(uid);
  dead_uids_.push_back(uid);
  Object last = Stamped(*before, history_.next_version());
  Record({resource, before, nullptr, std::make_shared<const Object>(std::move(last))});
}

void MemoryStore::Record(WatchHistory::Change change) {
  history_.Record(std::move(change));
  on_change_();
}

void MemoryStore::CollectDependents() {
  const std::string uid = std::move(dead_uids_.front());
  dead_uids_.pop_front();
  for (auto& [resource, objects] : resources_) {
    for (auto it = objects.begin(); it != objects.end();) {
      const StoredObject object = (it++)->second;  // its deletion invalidates the iterator
      DropOwner(resource, *object, uid);
    }
  }
}

void MemoryStore::DropOwner(const Resource& resource, const Object& object,
                            const std::string& dead_uid) {
  Object living = Object::array();
  bool is_dependent = false;
  for (const Object& owner : OwnersOf(object)) {
    const std::string uid = owner.value("uid", "");
    is_dependent = is_dependent || uid == dead_uid;
    if (uids_.contains(uid)) living.push_back(owner);
  }
  if (!is_dependent) return;
  if (living.empty()) return Delete(resource, kube::KeyOf(object));
  Object kept = object;
  kept["metadata"]["ownerReferences"] = std::move(living);
  Put(resource, std::move(kept));
}

}  // namespace lockstep::local
