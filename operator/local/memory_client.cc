#include "operator/local/memory_client.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "operator/local/api_time.h"

namespace lockstep::local {
namespace {

using kube::Key;
using kube::Kind;
using kube::Object;

// A quiet watch gets a bookmark once the store has advanced by this many versions.
constexpr std::uint64_t kBookmarkEvery = 64;
constexpr std::size_t kSnapshots = 64;
constexpr std::int64_t kDefaultGraceSeconds = 30;

std::string ResourceOf(const Kind& kind) {
  return kind.group + "/" + kind.plural;
}

std::string Describe(const char* verb, const Kind& kind, const Key& key) {
  return fmt::format("{} {} {}{}{}", verb, kind.plural, key.namespace_name,
                     key.namespace_name.empty() ? "" : "/", key.name);
}

bool IsPod(const std::string& resource) {
  return resource == "/pods";
}

bool HasStatus(const Kind& kind) {
  return kind.kind != "ConfigMap" && kind.kind != "Secret" && kind.kind != "Event" &&
         kind.kind != "Lease";
}

// Pods and Services have no generation before Kubernetes 1.33.
bool HasGeneration(const Kind& kind) {
  return HasStatus(kind) && kind.kind != "Pod" && kind.kind != "Service";
}

bool IsDnsSubdomain(const std::string& name) {
  const auto alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > 253 || !alnum(name.front()) || !alnum(name.back())) {
    return false;
  }
  for (const char c : name) {
    if (!alnum(c) && c != '-' && c != '.') return false;
  }
  return true;
}

// Returns everything but metadata and status: what `generation` counts.
Object SpecOf(Object object) {
  object.erase("metadata");
  object.erase("status");
  return object;
}

std::string PhaseOf(const Object& pod) {
  const Object::json_pointer phase("/status/phase");
  return pod.contains(phase) ? pod[phase].get<std::string>() : std::string();
}

// Seconds that the API server grants a pod; 0 if no kubelet has it or it has ended.
std::int64_t GraceSeconds(const Object& pod) {
  const Object spec = pod.value("spec", Object::object());
  const std::string phase = PhaseOf(pod);
  if (spec.value("nodeName", "").empty() || phase == "Succeeded" || phase == "Failed") return 0;
  return spec.value("terminationGracePeriodSeconds", kDefaultGraceSeconds);
}

bool HasFinalizers(const Object& object) {
  const Object& metadata = object["metadata"];
  return metadata.contains("finalizers") && !metadata["finalizers"].empty();
}

absl::Status CheckNew(const Kind& kind, const Object& object) {
  const std::string where = Describe("create", kind, kube::KeyOf(object));
  if (!object.is_object() || !object.contains("metadata")) {
    return absl::InvalidArgumentError(fmt::format("{}: no metadata", where));
  }
  const std::string api_version = object.value("apiVersion", "");
  const std::string kind_name = object.value("kind", "");
  if (api_version != kind.ApiVersion() || kind_name != kind.kind) {
    return absl::InvalidArgumentError(fmt::format("{}: found {} {}, expected {} {}", where,
                                                  api_version, kind_name, kind.ApiVersion(),
                                                  kind.kind));
  }
  if (kind.namespaced && kube::Namespace(object).empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: metadata.namespace is empty", where));
  }
  if (!kube::ResourceVersion(object).empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: metadata.resourceVersion is set on a new object", where));
  }
  const std::string name = kube::Name(object);
  const bool generated = name.empty() && object["metadata"].contains("generateName");
  if (!generated && !IsDnsSubdomain(name)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: metadata.name: found \"{}\", expected lower-case letters, digits, '-' and '.'", where,
        name));
  }
  return absl::OkStatus();
}

// A Secret's stringData is write-only and is stored in data.
void EncodeStringData(Object& secret) {
  if (!secret.contains("stringData")) return;
  for (const auto& [key, value] : secret["stringData"].items()) {
    secret["data"][key] = absl::Base64Escape(value.get<std::string>());
  }
  secret.erase("stringData");
}

// Keeps the metadata that only the server sets.
void KeepSystemMetadata(const Object& from, Object& to) {
  for (const char* field : {"uid", "creationTimestamp", "generation", "deletionTimestamp",
                            "deletionGracePeriodSeconds", "resourceVersion"}) {
    if (from["metadata"].contains(field)) {
      to["metadata"][field] = from["metadata"][field];
    } else {
      to["metadata"].erase(field);
    }
  }
}

void SetOrErase(Object& object, const char* field, const Object& from) {
  if (from.contains(field)) {
    object[field] = from[field];
  } else {
    object.erase(field);
  }
}

}  // namespace

MemoryClient::MemoryClient(const Clock& clock, Options options)
    : clock_(clock), options_(std::move(options)), random_(std::random_device{}()) {
  collector_ = std::jthread([this](std::stop_token stop) { CollectorLoop(std::move(stop)); });
}

MemoryClient::~MemoryClient() = default;

bool MemoryClient::Filter::Matches(const Stored& object) const {
  if (object == nullptr) return false;
  if (!namespace_name.empty() && kube::Namespace(*object) != namespace_name) return false;
  const Object& metadata = (*object)["metadata"];
  return selector.Matches(metadata.contains("labels") ? metadata["labels"] : Object());
}

absl::StatusOr<Object> MemoryClient::Get(const Kind& kind, const Key& key) {
  const std::lock_guard lock(mutex_);
  const Objects& objects = resources_[ResourceOf(kind)];
  const auto it = objects.find(key);
  if (it == objects.end()) {
    return absl::NotFoundError(fmt::format("{}: not found", Describe("get", kind, key)));
  }
  return *it->second;
}

absl::StatusOr<kube::Page> MemoryClient::List(const Kind& kind, const kube::ListOptions& options) {
  Filter filter{options.namespace_name, {}};
  LOCKSTEP_ASSIGN_OR_RETURN(filter.selector, LabelSelector::Parse(options.label_selector));
  const std::lock_guard lock(mutex_);
  if (!options.continue_token.empty()) {
    for (auto it = snapshots_.begin(); it != snapshots_.end(); ++it) {
      if (it->token != options.continue_token) continue;
      Snapshot snapshot = std::move(*it);
      snapshots_.erase(it);
      return NextPage(std::move(snapshot), options.limit);
    }
    return absl::OutOfRangeError(
        fmt::format("list {}: the continue token has expired", kind.plural));
  }
  Snapshot snapshot;
  snapshot.version = version_;
  for (const auto& [key, object] : resources_[ResourceOf(kind)]) {
    if (filter.Matches(object)) snapshot.rest.push_back(object);
  }
  return NextPage(std::move(snapshot), options.limit);
}

absl::StatusOr<kube::Page> MemoryClient::NextPage(Snapshot snapshot, int limit) {
  kube::Page page;
  page.resource_version = fmt::format("{}", snapshot.version);
  while (!snapshot.rest.empty() &&
         (limit <= 0 || page.items.size() < static_cast<std::size_t>(limit))) {
    page.items.push_back(*snapshot.rest.front());
    snapshot.rest.pop_front();
  }
  if (snapshot.rest.empty()) return page;
  snapshot.token = NewUid();
  page.continue_token = snapshot.token;
  snapshots_.push_back(std::move(snapshot));
  if (snapshots_.size() > kSnapshots) snapshots_.pop_front();
  return page;
}

absl::StatusOr<Object> MemoryClient::Create(const Kind& kind, const Object& object) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNew(kind, object));
  const std::lock_guard lock(mutex_);
  const Resource resource = ResourceOf(kind);
  Object made = object;
  Object& metadata = made["metadata"];
  if (kube::Name(made).empty()) {
    metadata["name"] = metadata["generateName"].get<std::string>() + NewSuffix();
  }
  const Key key = kube::KeyOf(made);
  if (resources_[resource].contains(key)) {
    return absl::AlreadyExistsError(
        fmt::format("{}: already exists", Describe("create", kind, key)));
  }
  metadata["uid"] = NewUid();
  metadata["creationTimestamp"] = FormatApiTime(clock_.Now());
  metadata.erase("deletionTimestamp");
  metadata.erase("deletionGracePeriodSeconds");
  metadata.erase("generation");
  if (HasGeneration(kind)) metadata["generation"] = 1;
  if (HasStatus(kind)) made.erase("status");
  if (kind.kind == "Secret") EncodeStringData(made);
  if (IsPod(resource)) {
    made["status"] = {{"phase", "Pending"}};
    if (!options_.node_name.empty()) made["spec"]["nodeName"] = options_.node_name;
  }
  uids_.insert(metadata["uid"].get<std::string>());
  for (const Object& owner : metadata.value("ownerReferences", Object::array())) {
    const std::string owner_uid = owner.value("uid", "");
    if (!uids_.contains(owner_uid)) dead_uids_.push_back(owner_uid);
  }
  return *Commit(resource, key, std::move(made));
}

// Returns the object to write, once the preconditions hold.
absl::StatusOr<MemoryClient::Objects::iterator> MemoryClient::FindForWrite(const Kind& kind,
                                                                           const char* verb,
                                                                           const Object& object) {
  const Key key = kube::KeyOf(object);
  const std::string where = Describe(verb, kind, key);
  const std::string version = kube::ResourceVersion(object);
  if (version.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: metadata.resourceVersion must be set for an update", where));
  }
  Objects& objects = resources_[ResourceOf(kind)];
  const auto it = objects.find(key);
  if (it == objects.end()) return absl::NotFoundError(fmt::format("{}: not found", where));
  const std::string uid = kube::Uid(object);
  if (!uid.empty() && uid != kube::Uid(*it->second)) {
    return absl::AbortedError(
        fmt::format("{}: the object's uid is {}, not {}", where, kube::Uid(*it->second), uid));
  }
  if (version != kube::ResourceVersion(*it->second)) {
    return absl::AbortedError(fmt::format("{}: the object is at version {}, the write is for {}",
                                          where, kube::ResourceVersion(*it->second), version));
  }
  return it;
}

absl::StatusOr<Object> MemoryClient::Update(const Kind& kind, const Object& object) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto it, FindForWrite(kind, "update", object));
  const Object& old = *it->second;
  Object made = object;
  KeepSystemMetadata(old, made);
  if (HasStatus(kind)) SetOrErase(made, "status", old);
  if (kind.kind == "Secret") EncodeStringData(made);
  if (made == old) return made;
  const Resource resource = ResourceOf(kind);
  if (SpecOf(made) != SpecOf(old)) {
    if (IsPod(resource)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: a pod's spec may not change", Describe("update", kind, it->first)));
    }
    if (HasGeneration(kind)) {
      made["metadata"]["generation"] = old["metadata"]["generation"].get<std::int64_t>() + 1;
    }
  }
  const Stored stored = Commit(resource, it->first, std::move(made));
  // That was the last finalizer of an object whose deletion waits for nothing else.
  if (kube::IsBeingDeleted(*stored) && !HasFinalizers(*stored) &&
      (*stored)["metadata"].value("deletionGracePeriodSeconds", 0) == 0) {
    Remove(resource, it);
  }
  return *stored;
}

absl::StatusOr<Object> MemoryClient::UpdateStatus(const Kind& kind, const Object& object) {
  const std::lock_guard lock(mutex_);
  if (!HasStatus(kind)) {
    return absl::NotFoundError(fmt::format("{}: {} have no status",
                                           Describe("update status of", kind, kube::KeyOf(object)),
                                           kind.plural));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto it, FindForWrite(kind, "update status of", object));
  Object made = *it->second;
  SetOrErase(made, "status", object);
  if (made == *it->second) return made;
  return *Commit(ResourceOf(kind), it->first, std::move(made));
}

absl::StatusOr<MemoryClient::Objects::iterator> MemoryClient::FindForDelete(
    const Kind& kind, const Key& key, const std::string& uid) {
  Objects& objects = resources_[ResourceOf(kind)];
  const auto it = objects.find(key);
  const std::string where = Describe("delete", kind, key);
  if (it == objects.end()) return absl::NotFoundError(fmt::format("{}: not found", where));
  if (!uid.empty() && uid != kube::Uid(*it->second)) {
    return absl::AbortedError(
        fmt::format("{}: the object's uid is {}, not {}", where, kube::Uid(*it->second), uid));
  }
  return it;
}

absl::Status MemoryClient::Delete(const Kind& kind, const Key& key, const std::string& uid) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto it, FindForDelete(kind, key, uid));
  BeginDelete(ResourceOf(kind), it);
  return absl::OkStatus();
}

absl::Status MemoryClient::ForceDelete(const Kind& kind, const Key& key, const std::string& uid) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto it, FindForDelete(kind, key, uid));
  EndNow(ResourceOf(kind), it);
  return absl::OkStatus();
}

absl::Status MemoryClient::ConfirmDeleted(const Key& pod, const std::string& uid) {
  const std::lock_guard lock(mutex_);
  const Resource resource = ResourceOf(kube::kPodKind);
  const auto it = resources_[resource].find(pod);
  if (it == resources_[resource].end() || kube::Uid(*it->second) != uid) {
    return absl::NotFoundError(fmt::format("confirm the deletion of pod {}/{}: no pod of uid {}",
                                           pod.namespace_name, pod.name, uid));
  }
  EndNow(resource, it);
  return absl::OkStatus();
}

// Removes the object, unless finalizers hold it.
void MemoryClient::EndNow(const Resource& resource, Objects::iterator it) {
  if (!HasFinalizers(*it->second)) return Remove(resource, it);
  Object made = *it->second;
  if (!kube::IsBeingDeleted(made)) {
    made["metadata"]["deletionTimestamp"] = FormatApiTime(clock_.Now());
  }
  made["metadata"]["deletionGracePeriodSeconds"] = 0;
  Commit(resource, it->first, std::move(made));
}

void MemoryClient::BeginDelete(const Resource& resource, Objects::iterator it) {
  const Object& old = *it->second;
  if (kube::IsBeingDeleted(old)) return;
  const std::int64_t grace = IsPod(resource) ? GraceSeconds(old) : 0;
  if (grace == 0 && !HasFinalizers(old)) {
    Remove(resource, it);
    return;
  }
  Object made = old;
  made["metadata"]["deletionTimestamp"] = FormatApiTime(clock_.Now() + std::chrono::seconds(grace));
  made["metadata"]["deletionGracePeriodSeconds"] = grace;
  Commit(resource, it->first, std::move(made));
}

// Stores the object under the next version and wakes the watches.
MemoryClient::Stored MemoryClient::Commit(const Resource& resource, const Key& key, Object object) {
  object["metadata"]["resourceVersion"] = fmt::format("{}", version_ + 1);
  const Stored after = std::make_shared<const Object>(std::move(object));
  Stored& slot = resources_[resource][key];
  Change change{resource, slot, after, nullptr};
  if (slot != nullptr) {
    Object last = *slot;
    last["metadata"]["resourceVersion"] = (*after)["metadata"]["resourceVersion"];
    change.last = std::make_shared<const Object>(std::move(last));
  }
  slot = after;
  Record(std::move(change));
  return after;
}

void MemoryClient::Remove(const Resource& resource, Objects::iterator it) {
  Object last = *it->second;
  last["metadata"]["resourceVersion"] = fmt::format("{}", version_ + 1);
  const std::string uid = kube::Uid(last);
  Change change{resource, it->second, nullptr, std::make_shared<const Object>(std::move(last))};
  resources_[resource].erase(it);
  uids_.erase(uid);
  dead_uids_.push_back(uid);
  Record(std::move(change));
}

void MemoryClient::Record(Change change) {
  ++version_;
  history_.push_back(std::move(change));
  if (history_.size() > options_.history) history_.pop_front();
  changed_.notify_all();
}

absl::Status MemoryClient::Watch(const Kind& kind, const kube::WatchOptions& options,
                                 std::stop_token stop,
                                 const std::function<void(kube::WatchEvent)>& on_event) {
  Filter filter{options.namespace_name, {}};
  LOCKSTEP_ASSIGN_OR_RETURN(filter.selector, LabelSelector::Parse(options.label_selector));
  const Resource resource = ResourceOf(kind);
  std::unique_lock lock(mutex_);
  LOCKSTEP_ASSIGN_OR_RETURN(std::uint64_t cursor, WatchStart(options.resource_version));
  std::vector<kube::WatchEvent> events;
  if (options.resource_version.empty() || options.resource_version == "0") {
    for (const auto& [key, object] : resources_[resource]) {
      if (filter.Matches(object)) events.push_back({kube::WatchEvent::Type::kAdded, *object});
    }
  }
  std::uint64_t told = cursor;  // the last version that the watcher has seen
  while (!stop.stop_requested()) {
    if (!events.empty()) {
      lock.unlock();
      for (kube::WatchEvent& event : events) {
        if (!stop.stop_requested()) on_event(std::move(event));
      }
      lock.lock();
    }
    LOCKSTEP_ASSIGN_OR_RETURN(events, EventsAfter(resource, filter, cursor));
    if (!events.empty()) {
      told = cursor;
    } else if (cursor - told >= kBookmarkEvery) {
      const Object bookmark = {{"apiVersion", kind.ApiVersion()},
                               {"kind", kind.kind},
                               {"metadata", {{"resourceVersion", fmt::format("{}", cursor)}}}};
      events.push_back({kube::WatchEvent::Type::kBookmark, bookmark});
      told = cursor;
    } else {
      changed_.wait(lock, stop, [&] { return version_ > cursor; });
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> MemoryClient::WatchStart(const std::string& version) const {
  if (version.empty() || version == "0") return version_;
  std::uint64_t start = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), start);
  if (error != std::errc() || end != version.data() + version.size()) {
    return absl::FailedPreconditionError(
        fmt::format("watch: resourceVersion \"{}\" is not a number", version));
  }
  if (start > version_) {
    return absl::DeadlineExceededError(
        fmt::format("watch: resourceVersion {} is yet to come, the last is {}", start, version_));
  }
  return start;
}

absl::StatusOr<std::vector<kube::WatchEvent>> MemoryClient::EventsAfter(
    const Resource& resource, const Filter& filter, std::uint64_t& cursor) const {
  const std::uint64_t before_history = version_ - history_.size();
  if (cursor < before_history) {
    return absl::OutOfRangeError(
        fmt::format("watch: version {} is too old, the oldest kept is {}", cursor, before_history));
  }
  std::vector<kube::WatchEvent> events;
  for (std::uint64_t i = cursor - before_history; i < history_.size(); ++i) {
    const Change& change = history_[i];
    if (change.resource != resource) continue;
    const bool was_seen = filter.Matches(change.before);
    const bool is_seen = filter.Matches(change.after);
    using Type = kube::WatchEvent::Type;
    if (is_seen) {
      events.push_back({was_seen ? Type::kModified : Type::kAdded, *change.after});
    } else if (was_seen) {
      events.push_back({Type::kDeleted, *change.last});
    }
  }
  cursor = version_;
  return events;
}

void MemoryClient::CollectorLoop(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !dead_uids_.empty(); })) {
    const std::string uid = dead_uids_.front();
    dead_uids_.pop_front();
    CollectChildrenOf(uid);
  }
}

// Deletes objects that have no living owner left; drops the dead owner from the others.
void MemoryClient::CollectChildrenOf(const std::string& uid) {
  for (auto& [resource, objects] : resources_) {
    for (auto it = objects.begin(); it != objects.end();) {
      const auto current = it++;
      const Object& metadata = (*current->second)["metadata"];
      Object living = Object::array();
      bool child = false;
      for (const Object& owner : metadata.value("ownerReferences", Object::array())) {
        const std::string owner_uid = owner.value("uid", "");
        child = child || owner_uid == uid;
        if (uids_.contains(owner_uid)) living.push_back(owner);
      }
      if (!child) continue;
      if (living.empty()) {
        BeginDelete(resource, current);
      } else {
        Object made = *current->second;
        made["metadata"]["ownerReferences"] = std::move(living);
        Commit(resource, current->first, std::move(made));
      }
    }
  }
}

std::string MemoryClient::NewUid() {
  const std::uint64_t a = random_();
  const std::uint64_t b = random_();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:x}{:03x}-{:012x}", a >> 32, (a >> 16) & 0xffff,
                     a & 0xfff, 8 + ((b >> 62) & 3), (b >> 48) & 0xfff, b & 0xffffffffffff);
}

std::string MemoryClient::NewSuffix() {
  static constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string suffix;
  for (int i = 0; i < 5; ++i) suffix += kLetters[random_() % kLetters.size()];
  return suffix;
}

}  // namespace lockstep::local
