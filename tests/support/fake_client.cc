#include "tests/support/fake_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::testing {

using kube::Key;
using kube::KeyOf;
using kube::Kind;
using kube::Object;
using kube::WatchEvent;

namespace {

// An empty `namespace_name` means all namespaces.
bool IsIn(const std::string& namespace_name, const Object& object) {
  return namespace_name.empty() || kube::Namespace(object) == namespace_name;
}

}  // namespace

void FakeClient::SetBefore(Hook hook) {
  const std::lock_guard lock(mutex_);
  before_ = std::move(hook);
}

void FakeClient::SetAfter(Hook hook) {
  const std::lock_guard lock(mutex_);
  after_ = std::move(hook);
}

void FakeClient::SetReview(Review review) {
  const std::lock_guard lock(mutex_);
  review_ = std::move(review);
}

std::vector<FakeClient::Call> FakeClient::writes() const {
  const std::lock_guard lock(mutex_);
  std::vector<Call> writes;
  std::ranges::copy_if(calls_, std::back_inserter(writes), &Call::is_write);
  return writes;
}

int FakeClient::Count(const std::string& verb, const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(
      calls_, [&](const Call& call) { return call.verb == verb && call.kind == kind; }));
}

std::vector<Object> FakeClient::Objects(const Kind& kind) const {
  const std::lock_guard lock(mutex_);
  std::vector<Object> objects;
  for (const auto& [slot, object] : objects_) {
    if (slot.first == kind.plural) objects.push_back(object);
  }
  return objects;
}

std::vector<FakeClient::Change> FakeClient::JournalSince(std::uint64_t version) const {
  const std::lock_guard lock(mutex_);
  std::vector<Change> changes;
  std::ranges::copy_if(journal_, std::back_inserter(changes),
                       [version](const Change& change) { return change.version > version; });
  return changes;
}

void FakeClient::ForgetHistory() {
  {
    const std::lock_guard lock(mutex_);
    oldest_ = ++version_;
  }
  EndWatches(absl::OutOfRangeError("watch: too old resource version"));
}

void FakeClient::EndWatches(absl::Status status) {
  const std::lock_guard lock(mutex_);
  ++watch_epoch_;
  watch_end_ = std::move(status);
  changed_.notify_all();
}

void FakeClient::Finalize(const Kind& kind, const Key& key) {
  const std::lock_guard lock(mutex_);
  auto node = objects_.extract({kind.plural, key});
  if (!node.empty()) StampLocked(kind, node.mapped(), WatchEvent::Type::kDeleted);
}

void FakeClient::Modify(const Kind& kind, const Key& key,
                        const std::function<void(Object&)>& change) {
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find({kind.plural, key});
  if (it == objects_.end()) return;
  change(it->second);
  StampLocked(kind, it->second, WatchEvent::Type::kModified);
}

absl::StatusOr<Object> FakeClient::Get(const Kind& kind, const Key& key) {
  const Call call{"get", kind.kind, key.name};
  if (absl::Status fate = Before(call); !fate.ok()) return fate;
  const std::lock_guard lock(mutex_);
  const auto it = objects_.find({kind.plural, key});
  if (it == objects_.end()) return absl::NotFoundError("get " + kind.plural + " " + key.name);
  return it->second;
}

absl::StatusOr<Object> FakeClient::GetMetadata(const Kind& kind, const Key& key) {
  absl::StatusOr<Object> object = Get(kind, key);
  if (!object.ok()) return object.status();
  return Object({{"metadata", std::move(object->at("metadata"))}});
}

absl::StatusOr<kube::Page> FakeClient::List(const Kind& kind, const kube::ListOptions& options) {
  const Call call{"list", kind.kind, options.continue_token, options.namespace_name, options.limit};
  if (absl::Status fate = Before(call); !fate.ok()) return fate;
  const std::lock_guard lock(mutex_);
  kube::Page page;
  page.resource_version = std::to_string(version_);
  std::size_t skip = options.continue_token.empty() ? 0 : std::stoul(options.continue_token);
  std::size_t position = 0;
  for (const auto& [slot, object] : objects_) {
    if (slot.first != kind.plural || !IsIn(options.namespace_name, object)) continue;
    if (position++ < skip) continue;
    if (static_cast<int>(page.items.size()) == options.limit) {
      page.continue_token = std::to_string(position - 1);
      break;
    }
    page.items.push_back(object);
  }
  return page;
}

absl::Status FakeClient::Watch(const Kind& kind, const kube::WatchOptions& options,
                               std::stop_token stop,
                               const std::function<void(WatchEvent)>& on_event) {
  const Call call{"watch", kind.kind, options.resource_version, options.namespace_name};
  if (absl::Status fate = Before(call); !fate.ok()) return fate;
  std::uint64_t seen = std::stoull(options.resource_version);
  std::unique_lock lock(mutex_);
  if (seen < oldest_) return absl::OutOfRangeError("watch: too old resource version");
  const int epoch = watch_epoch_;
  while (!stop.stop_requested() && epoch == watch_epoch_) {
    std::vector<WatchEvent> events;
    for (const Change& change : journal_) {
      if (change.version <= seen || change.kind != kind) continue;
      if (IsIn(options.namespace_name, change.event.object)) events.push_back(change.event);
    }
    seen = version_;
    lock.unlock();
    for (WatchEvent& event : events) on_event(std::move(event));
    lock.lock();
    changed_.wait(lock, stop, [&] { return version_ > seen || epoch != watch_epoch_; });
  }
  return stop.stop_requested() ? absl::OkStatus() : watch_end_;
}

absl::StatusOr<Object> FakeClient::Create(const Kind& kind, const Object& object) {
  const Call call{"create", kind.kind, kube::Name(object)};
  if (absl::Status fate = Before(call); !fate.ok()) return fate;
  if (absl::Status refusal = ReviewOf("create", object); !refusal.ok()) return refusal;
  Object made = object;
  {
    const std::lock_guard lock(mutex_);
    const auto [it, added] = objects_.try_emplace({kind.plural, KeyOf(object)}, object);
    if (!added) return absl::AlreadyExistsError("create " + kind.plural + " " + call.name);
    it->second["metadata"]["uid"] = fmt::format("uid-{}", next_uid_++);
    StampLocked(kind, it->second, WatchEvent::Type::kAdded);
    made = it->second;
  }
  if (absl::Status fate = After(call); !fate.ok()) return fate;
  return made;
}

absl::StatusOr<Object> FakeClient::Update(const Kind& kind, const Object& object) {
  return Replace(kind, object, "update");
}

absl::StatusOr<Object> FakeClient::UpdateStatus(const Kind& kind, const Object& object) {
  return Replace(kind, object, "update-status");
}

absl::StatusOr<Object> FakeClient::Replace(const Kind& kind, const Object& object,
                                           const std::string& verb) {
  const Call call{verb, kind.kind, kube::Name(object)};
  if (absl::Status fate = Before(call); !fate.ok()) return fate;
  if (absl::Status refusal = ReviewOf(verb, object); !refusal.ok()) return refusal;
  Object updated;
  {
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find({kind.plural, KeyOf(object)});
    if (it == objects_.end()) return absl::NotFoundError(verb + " " + call.name);
    if (kube::ResourceVersion(it->second) != kube::ResourceVersion(object)) {
      return absl::AbortedError(verb + " " + call.name + ": conflict");
    }
    if (verb == "update") {
      it->second = object;
    } else {
      it->second["status"] = object.at("status");
    }
    StampLocked(kind, it->second, WatchEvent::Type::kModified);
    updated = it->second;
  }
  if (absl::Status fate = After(call); !fate.ok()) return fate;
  return updated;
}

absl::Status FakeClient::Delete(const Kind& kind, const Key& key, const std::string& uid) {
  return Remove({"delete", kind.kind, key.name}, kind, key, uid, graceful_);
}

absl::Status FakeClient::ForceDelete(const Kind& kind, const Key& key, const std::string& uid) {
  return Remove({"force-delete", kind.kind, key.name}, kind, key, uid, false);
}

absl::Status FakeClient::Remove(const Call& call, const Kind& kind, const Key& key,
                                const std::string& uid, bool graceful) {
  if (absl::Status fate = Before(call); !fate.ok()) return fate;
  {
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find({kind.plural, key});
    if (it == objects_.end()) return absl::NotFoundError("delete " + key.name);
    if (!uid.empty() && kube::Uid(it->second) != uid) return absl::AbortedError("other uid");
    if (graceful && kind == kube::kPodKind) {
      it->second["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
      it->second["metadata"]["deletionGracePeriodSeconds"] = 30;
      StampLocked(kind, it->second, WatchEvent::Type::kModified);
    } else {
      StampLocked(kind, it->second, WatchEvent::Type::kDeleted);
      objects_.erase(it);
    }
  }
  return After(call);
}

absl::Status FakeClient::Before(const Call& call) {
  Hook hook;
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    hook = before_;
  }
  return hook ? hook(call) : absl::OkStatus();
}

absl::Status FakeClient::After(const Call& call) {
  Hook hook;
  {
    const std::lock_guard lock(mutex_);
    hook = after_;
  }
  return hook ? hook(call) : absl::OkStatus();
}

absl::Status FakeClient::ReviewOf(const std::string& verb, const Object& object) {
  Review review;
  {
    const std::lock_guard lock(mutex_);
    review = review_;
  }
  return review ? review(verb, object) : absl::OkStatus();
}

void FakeClient::StampLocked(const Kind& kind, Object& object, WatchEvent::Type type) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  journal_.push_back({version_, kind, {type, object}});
  changed_.notify_all();
}

}  // namespace lockstep::testing
