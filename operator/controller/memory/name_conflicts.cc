#include "operator/controller/memory/name_conflicts.h"

#include <algorithm>
#include <utility>

#include "api/v1/names.h"

namespace lockstep::controller {
namespace {

constexpr Duration kConflictLook = std::chrono::minutes(1);
// Names that one call asks the server for. A job of thousands of pods may find all names taken.
constexpr std::size_t kMostLooks = 64;

}  // namespace

void NameConflicts::Add(const kube::Kind& kind, const kube::Object& object, SteadyTime now) {
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
                                 const kube::Owner& owner, SteadyTime now, ThreadPool& pool,
                                 std::size_t at_once) {
  std::erase_if(by_name_, [&](const auto& entry) {
    return IsSettled({owner.namespace_name, entry.first}, entry.second, owner, stores);
  });
  // No store shows changes of an object without our label, and a watch may be stalled.
  std::vector<std::pair<const std::string, Conflict>*> due;
  for (auto& entry : by_name_) {
    if (now - entry.second.looked_at >= kConflictLook) due.push_back(&entry);
  }
  std::ranges::stable_sort(due, {}, [](const auto* entry) { return entry->second.looked_at; });
  if (due.size() > kMostLooks) due.resize(kMostLooks);
  std::vector<char> is_resolved(due.size());
  const absl::Status looked = pool.ForEach(due.size(), at_once, [&](std::size_t i) {
    auto& [name, conflict] = *due[i];
    const auto object = client.GetMetadata(conflict.kind, {owner.namespace_name, name});
    if (!object.ok() && !absl::IsNotFound(object.status())) return object.status();
    conflict.looked_at = now;
    is_resolved[i] = object.ok() && kube::OwnerOf(*object) != owner ? 0 : 1;
    return absl::OkStatus();
  });
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (is_resolved[i] != 0) by_name_.erase(due[i]->first);
  }
  return looked;
}

}  // namespace lockstep::controller
