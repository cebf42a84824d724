#include "operator/controller/memory/expectations.h"

#include <algorithm>
#include <mutex>

#include "operator/controller/state/kinds.h"

namespace lockstep::controller {

void Expectations::Created(const std::string& uid, const kube::AnyStore& store,
                           std::string version) {
  created_[uid] = {&store, std::move(version)};
}

void Expectations::Updated(const kube::AnyStore& store, std::string version) {
  updated_.push_back({&store, std::move(version)});
}

void Expectations::Deleted(const std::string& uid, const kube::Key& pod) {
  deleted_[uid] = pod;
}

void Expectations::WroteJob(std::string version) {
  job_version_ = std::move(version);
}

void Expectations::MayHaveWritten(const kube::Kind& kind, const kube::Key& key) {
  unresolved_.emplace_back(kind, key);
}

absl::Status Expectations::Resolve(kube::Client& client, const Stores& stores,
                                   const kube::Owner& owner, ThreadPool& pool,
                                   std::size_t at_once) {
  std::mutex mutex;  // guards `left` and this object
  std::vector<std::pair<kube::Kind, kube::Key>> left;
  const auto look = [&](std::size_t i) {
    const auto& [kind, key] = unresolved_[i];
    const auto object = client.GetMetadata(kind, key);
    const std::lock_guard lock(mutex);
    if (!object.ok() && !absl::IsNotFound(object.status())) {
      left.emplace_back(kind, key);
      return object.status();
    }
    if (object.ok() && kind == kTrainingJobKind) {
      job_version_ = kube::ResourceVersion(*object);
    } else if (object.ok() && kube::OwnerOf(*object) == owner) {
      Created(kube::Uid(*object), StoreOf(stores, kind), kube::ResourceVersion(*object));
    }
    return absl::OkStatus();
  };
  const absl::Status looked = pool.ForEach(unresolved_.size(), at_once, look);
  unresolved_ = std::move(left);
  return looked;
}

bool Expectations::AreMet(const kube::Identity& job, const kube::Owner& owner,
                          const Stores& stores) {
  const auto has_seen = [&job](const Write& write) {
    const std::string seen = write.store->resource_version(job.key.namespace_name);
    return !kube::IsOlderVersion(seen, write.version);
  };
  std::erase_if(created_, [&](const auto& entry) { return has_seen(entry.second); });
  for (const Stores::Children& children : stores.children) {
    if (created_.empty()) break;
    for (const kube::AnyStore::Ptr& object : children.store->AllOwnedBy(owner)) {
      created_.erase(object->uid);
    }
  }
  std::erase_if(deleted_, [&stores](const auto& entry) {
    const kube::AnyStore::Ptr pod = stores.pods->Find(entry.second);
    return !pod || pod->uid != entry.first || pod->being_deleted;
  });
  std::erase_if(updated_, has_seen);
  return updated_.empty() && created_.empty() && deleted_.empty() &&
         !kube::IsOlderVersion(job.resource_version, job_version_);
}

}  // namespace lockstep::controller
