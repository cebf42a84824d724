#include "operator/controller/name_conflicts.h"

#include "api/v1/names.h"

namespace lockstep::controller {
namespace {

constexpr Duration kConflictLook = std::chrono::minutes(1);

}  // namespace

void NameConflicts::Add(const kube::Kind& kind, const kube::Object& object, Time now) {
  by_name_[kube::Name(object)] = {kind, kube::Uid(object), kube::ResourceVersion(object),
                                  !kube::Label(object, api::kLabelJobUid).empty(), now};
}

std::vector<std::string> NameConflicts::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, conflict] : by_name_) names.push_back(name);
  return names;
}

// Returns true if the store, which holds every object with our label, shows that the name is free
// or the job's own.
bool NameConflicts::IsSettled(const kube::Key& key, const Conflict& conflict,
                              const kube::Owner& owner, const Stores& stores) {
  const kube::AnyStore& store = StoreOf(stores, conflict.kind);
  if (!conflict.is_cached) return false;
  if (kube::IsOlderVersion(store.resource_version(key.namespace_name), conflict.version)) {
    return false;
  }
  const kube::AnyStore::Ptr holder = store.Find(key);
  return !holder || holder->uid != conflict.uid ||
         kube::Owner{holder->key.namespace_name, holder->owner_kind, holder->owner_uid} == owner;
}

absl::Status NameConflicts::Look(kube::Client& client, const Stores& stores,
                                 const kube::Owner& owner, Time now) {
  std::vector<std::string> resolved;
  for (auto& [name, conflict] : by_name_) {
    const kube::Key holder{owner.namespace_name, name};
    if (IsSettled(holder, conflict, owner, stores)) {
      resolved.push_back(name);
      continue;
    }
    // No store shows changes of an object without our label, and a watch may be stalled.
    if (now - conflict.looked_at < kConflictLook) continue;
    const auto object = client.GetMetadata(conflict.kind, holder);
    if (!object.ok() && !absl::IsNotFound(object.status())) return object.status();
    const bool foreign = object.ok() && kube::OwnerOf(*object) != owner;
    if (foreign) {
      conflict.looked_at = now;
    } else {
      resolved.push_back(name);
    }
  }
  for (const std::string& name : resolved) by_name_.erase(name);
  return absl::OkStatus();
}

}  // namespace lockstep::controller
