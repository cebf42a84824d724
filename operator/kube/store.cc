#include "operator/kube/store.h"

#include <utility>

namespace lockstep::kube {

Identity IdentityOf(const Object& object) {
  const Object& owner = ControllerOf(object);
  return {.key = KeyOf(object),
          .uid = Uid(object),
          .resource_version = ResourceVersion(object),
          .owner_name = TextMember(owner, "name"),
          .owner_uid = TextMember(owner, "uid"),
          .being_deleted = IsBeingDeleted(object)};
}

FieldTree IdentityFields() {
  return {"metadata.name",
          "metadata.namespace",
          "metadata.uid",
          "metadata.resourceVersion",
          "metadata.deletionTimestamp",
          "metadata.ownerReferences.controller",
          "metadata.ownerReferences.name",
          "metadata.ownerReferences.uid"};
}

AnyStore::Ptr AnyStore::Find(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : *it;
}

std::vector<AnyStore::Ptr> AnyStore::AllOwnedBy(const std::string& owner_uid) const {
  const std::lock_guard lock(mutex_);
  const auto owned = by_owner_.find(owner_uid);
  if (owned == by_owner_.end()) return {};
  return {owned->second.begin(), owned->second.end()};
}

std::vector<AnyStore::Ptr> AnyStore::All() const {
  const std::lock_guard lock(mutex_);
  return {objects_.begin(), objects_.end()};
}

std::size_t AnyStore::size() const {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

std::string AnyStore::resource_version() const {
  const std::lock_guard lock(mutex_);
  return resource_version_;
}

void AnyStore::SetResourceVersion(const std::string& version) {
  const std::lock_guard lock(mutex_);
  resource_version_ = version;
}

AnyStore::Ptr AnyStore::Replace(Ptr object) {
  const std::lock_guard lock(mutex_);
  IndexLocked(object);
  const auto it = objects_.find(object->key);
  if (it == objects_.end()) {
    objects_.insert(std::move(object));
    return nullptr;
  }
  if ((*it)->owner_uid != object->owner_uid) UnindexLocked(*it);
  auto node = objects_.extract(it);
  std::swap(node.value(), object);  // their keys are equal
  objects_.insert(std::move(node));
  return object;
}

AnyStore::Ptr AnyStore::Take(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  if (it == objects_.end()) return nullptr;
  UnindexLocked(*it);
  return std::move(objects_.extract(it).value());
}

void AnyStore::IndexLocked(const Ptr& object) {
  if (object->owner_uid.empty()) return;
  Objects& owned = by_owner_[object->owner_uid];
  owned.erase(object);  // the one before, of the same key
  owned.insert(object);
}

void AnyStore::UnindexLocked(const Ptr& object) {
  const auto owned = by_owner_.find(object->owner_uid);
  if (owned == by_owner_.end()) return;
  owned->second.erase(object);
  if (owned->second.empty()) by_owner_.erase(owned);
}

bool IsOlderVersion(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace lockstep::kube
