#include "operator/kube/cache/store.h"

#include <utility>

namespace lockstep::kube {
namespace {

// Bytes. The API server has no limit for these texts of an owner reference, and a store keeps them
// for each object, twice. Names have at most 253 characters, uids 36.
constexpr std::size_t kLongestOwnerName = 253, kLongestOwnerKind = 512;

std::string OwnerKindOf(const Object& reference) {
  const std::string kind = TextMember(reference, "kind");
  const std::string api_version = TextMember(reference, "apiVersion");
  const std::size_t slash = api_version.find('/');
  return kind + "." + (slash == std::string::npos ? "" : api_version.substr(0, slash));
}

Owner OwnerOf(const Identity& object) {
  return {object.key.namespace_name, object.owner_kind, object.owner_uid};
}

}  // namespace

std::string OwnerKind(const Kind& kind) {
  return kind.kind + "." + kind.group;
}

Owner OwnerOf(const Object& object) {
  return OwnerOf(IdentityOf(object));
}

Identity IdentityOf(const Object& object) {
  Identity identity{.key = KeyOf(object),
                    .uid = Uid(object),
                    .resource_version = ResourceVersion(object),
                    .owner_kind = "",
                    .owner_name = "",
                    .owner_uid = "",
                    .being_deleted = IsBeingDeleted(object)};
  const Object& owner = ControllerOf(object);
  if (owner.is_null()) return identity;
  std::string kind = OwnerKindOf(owner);
  std::string name = TextMember(owner, "name"), uid = TextMember(owner, "uid");
  if (kind.size() > kLongestOwnerKind || name.size() > kLongestOwnerName ||
      uid.size() > kLongestOwnerName) {
    return identity;
  }
  identity.owner_kind = std::move(kind);
  identity.owner_name = std::move(name);
  identity.owner_uid = std::move(uid);
  return identity;
}

FieldMask IdentityFields() {
  return {"metadata.name",
          "metadata.namespace",
          "metadata.uid",
          "metadata.resourceVersion",
          "metadata.deletionTimestamp",
          "metadata.ownerReferences.apiVersion",
          "metadata.ownerReferences.controller",
          "metadata.ownerReferences.kind",
          "metadata.ownerReferences.name",
          "metadata.ownerReferences.uid"};
}

AnyStore::Ptr AnyStore::Find(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : *it;
}

std::vector<AnyStore::Ptr> AnyStore::AllOwnedBy(const Owner& owner) const {
  if (owner.uid.empty()) return {};
  const std::lock_guard lock(mutex_);
  const auto owned = by_owner_.find(owner);
  if (owned == by_owner_.end()) return {};
  return {owned->second.begin(), owned->second.end()};
}

std::vector<AnyStore::Ptr> AnyStore::AllIn(const std::string& namespace_name) const {
  const std::lock_guard lock(mutex_);
  if (namespace_name.empty()) return {objects_.begin(), objects_.end()};
  std::vector<Ptr> found;
  for (auto it = objects_.lower_bound(Key{namespace_name, ""}); it != objects_.end(); ++it) {
    if ((*it)->key.namespace_name != namespace_name) break;
    found.push_back(*it);
  }
  return found;
}

std::size_t AnyStore::size() const {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}

std::string AnyStore::resource_version(const std::string& namespace_name) const {
  const std::lock_guard lock(mutex_);
  auto it = resource_versions_.find(namespace_name);
  if (it == resource_versions_.end()) it = resource_versions_.find("");
  return it == resource_versions_.end() ? "" : it->second;
}

void AnyStore::SetResourceVersion(const std::string& namespace_name, const std::string& version) {
  const std::lock_guard lock(mutex_);
  resource_versions_[namespace_name] = version;
}

AnyStore::Ptr AnyStore::Replace(const Ptr& object) {
  const std::lock_guard lock(mutex_);
  Ptr before = PutInto(objects_, object);
  if (before && OwnerOf(*before) != OwnerOf(*object)) UnindexLocked(before);
  if (!object->owner_uid.empty()) PutInto(by_owner_[OwnerOf(*object)], object);
  return before;
}

AnyStore::Ptr AnyStore::PutInto(Objects& objects, Ptr object) {
  const auto [it, added] = objects.insert(object);
  if (added) return nullptr;
  auto node = objects.extract(it);
  std::swap(node.value(), object);  // their keys are equal
  objects.insert(std::move(node));
  return object;
}

AnyStore::Ptr AnyStore::Take(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  if (it == objects_.end()) return nullptr;
  UnindexLocked(*it);
  return std::move(objects_.extract(it).value());
}

void AnyStore::UnindexLocked(const Ptr& object) {
  const auto owned = by_owner_.find(OwnerOf(*object));
  if (owned == by_owner_.end()) return;
  owned->second.erase(object);
  if (owned->second.empty()) by_owner_.erase(owned);
}

bool IsOlderVersion(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace lockstep::kube
