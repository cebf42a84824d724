#include "operator/kube/store.h"

#include <utility>

namespace lockstep::kube {

ObjectPtr Store::Get(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : it->second;
}

std::vector<ObjectPtr> Store::OwnedBy(const std::string& owner_uid) const {
  const std::lock_guard lock(mutex_);
  std::vector<ObjectPtr> owned;
  const auto keys = by_owner_.find(owner_uid);
  if (keys == by_owner_.end()) return owned;
  owned.reserve(keys->second.size());
  for (const Key& key : keys->second) owned.push_back(objects_.at(key));
  return owned;
}

std::vector<ObjectPtr> Store::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<ObjectPtr> all;
  all.reserve(objects_.size());
  for (const auto& [key, object] : objects_) all.push_back(object);
  return all;
}

std::size_t Store::size() const {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

std::string Store::resource_version() const {
  const std::lock_guard lock(mutex_);
  return resource_version_;
}

ObjectPtr Store::Put(ObjectPtr object) {
  const Key key = KeyOf(*object);
  const std::lock_guard lock(mutex_);
  ObjectPtr& slot = objects_[key];
  if (slot) UnindexLocked(key, *slot);
  const std::string owner = ControllerUid(*object);
  if (!owner.empty()) by_owner_[owner].insert(key);
  return std::exchange(slot, std::move(object));
}

ObjectPtr Store::Remove(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  if (it == objects_.end()) return nullptr;
  ObjectPtr before = std::move(it->second);
  objects_.erase(it);
  UnindexLocked(key, *before);
  return before;
}

void Store::SetResourceVersion(const std::string& version) {
  const std::lock_guard lock(mutex_);
  resource_version_ = version;
}

void Store::UnindexLocked(const Key& key, const Object& object) {
  const auto it = by_owner_.find(ControllerUid(object));
  if (it == by_owner_.end()) return;
  it->second.erase(key);
  if (it->second.empty()) by_owner_.erase(it);
}

bool IsOlderVersion(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace lockstep::kube
