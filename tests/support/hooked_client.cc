#include "tests/support/hooked_client.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "tests/support/fake_clock.h"

namespace lockstep::testing {

using kube::Key;
using kube::Kind;
using kube::Object;

namespace {

const Clock& StandingClock() {
  static const FakeClock clock;
  return clock;
}

}  // namespace

bool IsOf(const Kind& kind, const Object& object) {
  return object.at("kind") == kind.kind && object.at("apiVersion") == kind.ApiVersion();
}

std::uint64_t VersionOf(const Object& object) {
  return std::stoull(kube::ResourceVersion(object));
}

HookedClient::HookedClient() : HookedClient(StandingClock()) {}

// Nothing happens at random or in the background, so that a test's run can be repeated.
HookedClient::HookedClient(const Clock& clock)
    : server_(clock, {.history = 1U << 20U, .collects_garbage = false, .seed = 1}) {}

void HookedClient::SetBefore(Hook hook) {
  const std::lock_guard lock(mutex_);
  before_ = std::move(hook);
}

void HookedClient::SetAfter(Hook hook) {
  const std::lock_guard lock(mutex_);
  after_ = std::move(hook);
}

std::vector<HookedClient::Call> HookedClient::writes() const {
  const std::lock_guard lock(mutex_);
  std::vector<Call> writes;
  std::ranges::copy_if(calls_, std::back_inserter(writes), &Call::is_write);
  return writes;
}

int HookedClient::Count(const std::string& verb, const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(
      calls_, [&](const Call& call) { return call.verb == verb && call.kind == kind; }));
}

std::vector<Object> HookedClient::Objects(const Kind& kind) {
  return ListAll(kind).items;
}

std::vector<kube::WatchEvent> HookedClient::JournalSince(std::uint64_t version) {
  auto events = server_.EventsAfter(std::max<std::uint64_t>(version, 1));
  LOCKSTEP_CHECK(events.ok(), "{}", events.status().ToString());
  return *std::move(events);
}

Object HookedClient::Add(const Kind& kind, Object object) {
  object["apiVersion"] = kind.ApiVersion();
  object["kind"] = kind.kind;
  auto added = server_.Create(kind, Bound(kind, object));
  LOCKSTEP_CHECK(added.ok(), "{}", added.status().ToString());
  if (!object.contains("status")) return *std::move(added);
  (*added)["status"] = object["status"];
  return server_.UpdateStatus(kind, *added).value();
}

void HookedClient::Modify(const Kind& kind, const Key& key,
                          const std::function<void(Object&)>& change) {
  absl::Status written;
  do {
    auto object = server_.Get(kind, key);
    LOCKSTEP_CHECK(object.ok(), "{}", object.status().ToString());
    Object wanted = *object;
    change(wanted);
    const auto updated = server_.Update(kind, wanted);
    written = updated.status();
    if (!written.ok() || wanted.value("status", Object()) == object->value("status", Object())) {
      continue;
    }
    wanted["metadata"]["resourceVersion"] = kube::ResourceVersion(*updated);
    written = server_.UpdateStatus(kind, wanted).status();
  } while (absl::IsAborted(written));
  LOCKSTEP_CHECK(written.ok(), "{}", written.ToString());
}

void HookedClient::Remove(const Kind& kind, const Key& key) {
  server_.ForceDelete(kind, key, {}).IgnoreError();  // NotFound
}

void HookedClient::SetScheduler(std::function<std::string(const Object& pod)> node_of) {
  const std::lock_guard lock(mutex_);
  node_of_ = std::move(node_of);
}

void HookedClient::ForgetHistory() {
  {
    const std::lock_guard lock(mutex_);
    oldest_ = std::stoull(ListAll(kube::kPodKind).resource_version) + 1;
  }
  // Something has to change, or a new list would have the version that is forgotten.
  const Kind kind{"", "v1", "ConfigMap", "configmaps"};
  const Key key{"default", "forgotten"};
  Add(kind, {{"metadata", {{"namespace", key.namespace_name}, {"name", key.name}}}});
  Remove(kind, key);
  EndWatches(absl::OutOfRangeError("watch: too old resource version"));
}

void HookedClient::EndWatches(absl::Status status) {
  std::stop_source running;
  {
    const std::lock_guard lock(mutex_);
    watch_end_ = std::move(status);
    std::swap(running, watches_);
  }
  running.request_stop();
}

absl::StatusOr<Object> HookedClient::Get(const Kind& kind, const Key& key) {
  LOCKSTEP_RETURN_IF_ERROR(Begin({"get", kind.kind, key.name}));
  return server_.Get(kind, key);
}

absl::StatusOr<Object> HookedClient::GetMetadata(const Kind& kind, const Key& key) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Object object, Get(kind, key));
  return Object({{"metadata", object.at("metadata")}});
}

absl::StatusOr<kube::Page> HookedClient::List(const Kind& kind, const kube::ListOptions& options) {
  LOCKSTEP_RETURN_IF_ERROR(
      Begin({"list", kind.kind, options.continue_token, options.namespace_name, options.limit}));
  return server_.List(kind, options);
}

absl::Status HookedClient::Watch(const Kind& kind, const kube::WatchOptions& options,
                                 std::stop_token stop,
                                 const std::function<void(kube::WatchEvent)>& on_event) {
  const std::string& version = options.resource_version;
  LOCKSTEP_RETURN_IF_ERROR(Begin({"watch", kind.kind, version, options.namespace_name}));
  std::stop_token end;
  {
    const std::lock_guard lock(mutex_);
    if (!version.empty() && std::stoull(version) < oldest_) {
      return absl::OutOfRangeError("watch: too old resource version");
    }
    end = watches_.get_token();
  }
  std::stop_source either;
  const std::stop_callback on_stop(stop, [&either] { either.request_stop(); });
  const std::stop_callback on_end(end, [&either] { either.request_stop(); });
  const absl::Status status = server_.Watch(kind, options, either.get_token(), on_event);
  if (!status.ok() || stop.stop_requested()) return status;
  const std::lock_guard lock(mutex_);
  return watch_end_;
}

absl::StatusOr<Object> HookedClient::Create(const Kind& kind, const Object& object) {
  const Call call{"create", kind.kind, kube::Name(object), {}, 0, &object};
  LOCKSTEP_RETURN_IF_ERROR(Begin(call));
  LOCKSTEP_ASSIGN_OR_RETURN(Object created, server_.Create(kind, Bound(kind, object)));
  LOCKSTEP_RETURN_IF_ERROR(End(call));
  return created;
}

absl::StatusOr<Object> HookedClient::Update(const Kind& kind, const Object& object) {
  const Call call{"update", kind.kind, kube::Name(object), {}, 0, &object};
  LOCKSTEP_RETURN_IF_ERROR(Begin(call));
  LOCKSTEP_ASSIGN_OR_RETURN(Object updated, server_.Update(kind, object));
  LOCKSTEP_RETURN_IF_ERROR(End(call));
  return updated;
}

absl::StatusOr<Object> HookedClient::UpdateStatus(const Kind& kind, const Object& object) {
  const Call call{"update-status", kind.kind, kube::Name(object), {}, 0, &object};
  LOCKSTEP_RETURN_IF_ERROR(Begin(call));
  LOCKSTEP_ASSIGN_OR_RETURN(Object updated, server_.UpdateStatus(kind, object));
  LOCKSTEP_RETURN_IF_ERROR(End(call));
  return updated;
}

absl::Status HookedClient::Delete(const Kind& kind, const Key& key,
                                  const kube::Preconditions& expected) {
  const Call call{"delete", kind.kind, key.name};
  LOCKSTEP_RETURN_IF_ERROR(Begin(call));
  LOCKSTEP_RETURN_IF_ERROR(server_.Delete(kind, key, expected));
  return End(call);
}

absl::Status HookedClient::ForceDelete(const Kind& kind, const Key& key,
                                       const kube::Preconditions& expected) {
  const Call call{"force-delete", kind.kind, key.name};
  LOCKSTEP_RETURN_IF_ERROR(Begin(call));
  LOCKSTEP_RETURN_IF_ERROR(server_.ForceDelete(kind, key, expected));
  return End(call);
}

absl::Status HookedClient::Begin(Call call) {
  Hook hook;
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
    calls_.back().object = nullptr;
    hook = before_;
  }
  return hook ? hook(call) : absl::OkStatus();
}

absl::Status HookedClient::End(const Call& call) const {
  Hook hook;
  {
    const std::lock_guard lock(mutex_);
    hook = after_;
  }
  return hook ? hook(call) : absl::OkStatus();
}

Object HookedClient::Bound(const Kind& kind, Object object) const {
  const std::lock_guard lock(mutex_);
  if (kind == kube::kPodKind && node_of_) object["spec"]["nodeName"] = node_of_(object);
  return object;
}

kube::Page HookedClient::ListAll(const Kind& kind) {
  kube::ListOptions all;
  all.limit = 0;
  return server_.List(kind, all).value();
}

}  // namespace lockstep::testing
