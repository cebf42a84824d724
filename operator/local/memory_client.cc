#include "operator/local/memory_client.h"

#include <fmt/format.h>

#include <optional>
#include <random>
#include <utility>

#include "base/status.h"
#include "operator/local/server_rules.h"

namespace lockstep::local {
namespace {

using kube::Key;
using kube::Kind;
using kube::Object;
using kube::WatchEvent;

// A quiet watch gets a bookmark once the store has advanced by this many versions.
constexpr std::uint64_t kBookmarkEvery = 64;

absl::Status NoSuchObject(const std::string& where) {
  return absl::NotFoundError(fmt::format("{}: not found", where));
}

absl::Status OtherUid(const std::string& where, const Object& object, const std::string& uid) {
  return absl::AbortedError(
      fmt::format("{}: the object's uid is {}, not {}", where, kube::Uid(object), uid));
}

absl::Status OtherVersion(const std::string& where, const Object& object,
                          const std::string& version) {
  return absl::AbortedError(fmt::format("{}: the object is at version {}, the write is for {}",
                                        where, kube::ResourceVersion(object), version));
}

WatchEvent Bookmark(const Kind& kind, std::uint64_t version) {
  return {WatchEvent::Type::kBookmark,
          {{"apiVersion", kind.ApiVersion()},
           {"kind", kind.kind},
           {"metadata", {{"resourceVersion", fmt::format("{}", version)}}}}};
}

}  // namespace

MemoryClient::MemoryClient(const Clock& clock, Options options)
    : clock_(clock),
      options_(std::move(options)),
      store_(clock, options_.history, [this] { changed_.notify_all(); }),
      names_(options_.seed ? *options_.seed : std::random_device{}()) {
  if (!options_.collects_garbage) return;
  collector_ = std::jthread([this](std::stop_token stop) { CollectorLoop(std::move(stop)); });
}

MemoryClient::~MemoryClient() = default;

absl::StatusOr<Object> MemoryClient::Get(const Kind& kind, const Key& key) {
  const std::lock_guard lock(mutex_);
  const StoredObject object = store_.Find(MemoryStore::ResourceOf(kind), key);
  if (object == nullptr) return NoSuchObject(DescribeCall("get", kind, key));
  return *object;
}

absl::StatusOr<kube::Page> MemoryClient::List(const Kind& kind, const kube::ListOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ObjectFilter filter,
                            ObjectFilter::Parse(options.namespace_name, options.label_selector));
  const std::lock_guard lock(mutex_);
  if (!options.continue_token.empty()) {
    std::optional<kube::Page> page = snapshots_.NextPage(options.continue_token, options.limit);
    if (page) return *std::move(page);
    return absl::OutOfRangeError(
        fmt::format("list {}: the continue token has expired", kind.plural));
  }
  ListSnapshots::Snapshot snapshot{store_.history().version(), {}};
  for (const auto& [key, object] : store_.All(MemoryStore::ResourceOf(kind))) {
    if (filter.Matches(*object)) snapshot.rest.push_back(object);
  }
  return snapshots_.TakePage(std::move(snapshot), options.limit);
}

absl::StatusOr<Object> MemoryClient::Create(const Kind& kind, const Object& object) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNew(kind, object));
  const std::lock_guard lock(mutex_);
  const MemoryStore::Resource resource = MemoryStore::ResourceOf(kind);
  Object named = object;
  if (kube::Name(named).empty()) {
    Object& metadata = named["metadata"];
    metadata["name"] = metadata["generateName"].get<std::string>() + names_.Suffix();
  }
  const Key key = kube::KeyOf(named);
  if (store_.Find(resource, key) != nullptr) {
    return absl::AlreadyExistsError(
        fmt::format("{}: already exists", DescribeCall("create", kind, key)));
  }
  const ServerFields fields{names_.Uid(), clock_.Now(), options_.node_name};
  return *store_.Put(resource, CreatedObject(kind, std::move(named), fields));
}

// Returns the object as it is stored, once the preconditions of a write hold.
absl::StatusOr<StoredObject> MemoryClient::FindForWrite(const Kind& kind, const char* verb,
                                                        const Object& object) {
  const Key key = kube::KeyOf(object);
  const std::string where = DescribeCall(verb, kind, key);
  const std::string version = kube::ResourceVersion(object);
  if (version.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: metadata.resourceVersion must be set for an update", where));
  }
  StoredObject stored = store_.Find(MemoryStore::ResourceOf(kind), key);
  if (stored == nullptr) return NoSuchObject(where);
  const std::string uid = kube::Uid(object);
  if (!uid.empty() && uid != kube::Uid(*stored)) return OtherUid(where, *stored, uid);
  if (version != kube::ResourceVersion(*stored)) return OtherVersion(where, *stored, version);
  return stored;
}

absl::StatusOr<Object> MemoryClient::Update(const Kind& kind, const Object& object) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const StoredObject old, FindForWrite(kind, "update", object));
  LOCKSTEP_ASSIGN_OR_RETURN(Object updated, UpdatedObject(kind, *old, object));
  if (updated == *old) return updated;
  return *store_.Put(MemoryStore::ResourceOf(kind), std::move(updated));
}

absl::StatusOr<Object> MemoryClient::UpdateStatus(const Kind& kind, const Object& object) {
  const std::lock_guard lock(mutex_);
  if (!HasStatus(kind)) {
    const std::string where = DescribeCall("update status of", kind, kube::KeyOf(object));
    return absl::NotFoundError(fmt::format("{}: {} have no status", where, kind.plural));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const StoredObject old, FindForWrite(kind, "update status of", object));
  Object updated = WithStatusOf(object, *old);
  if (updated == *old) return updated;
  return *store_.Put(MemoryStore::ResourceOf(kind), std::move(updated));
}

absl::Status MemoryClient::CheckDelete(const Kind& kind, const Key& key,
                                       const kube::Preconditions& expected) {
  const std::string where = DescribeCall("delete", kind, key);
  const StoredObject stored = store_.Find(MemoryStore::ResourceOf(kind), key);
  if (stored == nullptr) return NoSuchObject(where);
  const auto& [uid, version] = expected;
  if (!uid.empty() && uid != kube::Uid(*stored)) return OtherUid(where, *stored, uid);
  if (!version.empty() && version != kube::ResourceVersion(*stored)) {
    return OtherVersion(where, *stored, version);
  }
  return absl::OkStatus();
}

absl::Status MemoryClient::Delete(const Kind& kind, const Key& key,
                                  const kube::Preconditions& expected) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(CheckDelete(kind, key, expected));
  store_.Delete(MemoryStore::ResourceOf(kind), key);
  return absl::OkStatus();
}

absl::Status MemoryClient::ForceDelete(const Kind& kind, const Key& key,
                                       const kube::Preconditions& expected) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(CheckDelete(kind, key, expected));
  store_.DeleteNow(MemoryStore::ResourceOf(kind), key);
  return absl::OkStatus();
}

absl::Status MemoryClient::ConfirmDeleted(const Key& pod, const std::string& uid) {
  const std::lock_guard lock(mutex_);
  const MemoryStore::Resource resource = MemoryStore::ResourceOf(kube::kPodKind);
  const StoredObject stored = store_.Find(resource, pod);
  if (stored == nullptr || kube::Uid(*stored) != uid) {
    return absl::NotFoundError(fmt::format("confirm the deletion of pod {}/{}: no pod of uid {}",
                                           pod.namespace_name, pod.name, uid));
  }
  store_.DeleteNow(resource, pod);
  return absl::OkStatus();
}

// Returns the present objects as a watch from no version reports them.
std::vector<WatchEvent> MemoryClient::Present(const Kind& kind, const ObjectFilter& filter) {
  std::vector<WatchEvent> events;
  for (const auto& [key, object] : store_.All(MemoryStore::ResourceOf(kind))) {
    if (filter.Matches(*object)) events.push_back({WatchEvent::Type::kAdded, *object});
  }
  return events;
}

absl::Status MemoryClient::Watch(const Kind& kind, const kube::WatchOptions& options,
                                 std::stop_token stop,
                                 const std::function<void(WatchEvent)>& on_event) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ObjectFilter filter,
                            ObjectFilter::Parse(options.namespace_name, options.label_selector));
  const MemoryStore::Resource resource = MemoryStore::ResourceOf(kind);
  const WatchHistory& history = store_.history();
  std::unique_lock lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(std::uint64_t cursor, history.Start(options.resource_version));
  const bool from_now = options.resource_version.empty() || options.resource_version == "0";
  std::vector<WatchEvent> events;
  if (from_now) events = Present(kind, filter);
  std::uint64_t reported = cursor;  // the last version that the watcher knows of
  while (!stop.stop_requested()) {
    if (!events.empty()) {
      lock.unlock();
      for (WatchEvent& event : events) {
        if (!stop.stop_requested()) on_event(std::move(event));
      }
      lock.lock();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(events, history.EventsAfter(resource, filter, cursor));
    if (!events.empty()) {
      reported = cursor;
    } else if (cursor - reported >= kBookmarkEvery) {
      events.push_back(Bookmark(kind, cursor));
      reported = cursor;
    } else {
      changed_.wait(lock, stop, [&] { return history.version() > cursor; });
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<WatchEvent>> MemoryClient::EventsAfter(std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  return store_.history().EventsAfter(/*resource=*/"", ObjectFilter(), version);
}

void MemoryClient::CollectorLoop(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return store_.has_dead_owners(); })) {
    store_.CollectDependents();
  }
}

}  // namespace lockstep::local
