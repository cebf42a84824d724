#include "tests/faults/fault_client.h"

#include <chrono>
#include <thread>
#include <utility>

namespace lockstep::testing {
namespace {

using kube::Key;
using kube::Kind;
using kube::Object;
using kube::WatchEvent;

constexpr auto kLag = std::chrono::milliseconds(3);

absl::Status DeadStatus() {
  return absl::UnavailableError("the process is dead");
}

}  // namespace

FaultClient::FaultClient(kube::Client& store, Faults faults)
    : store_(store), faults_(std::move(faults)) {}

std::vector<FaultClient::Write> FaultClient::writes() const {
  const std::lock_guard lock(mutex_);
  return writes_;
}

bool FaultClient::struck() const {
  using enum WriteFault::Kind;
  const std::lock_guard lock(mutex_);
  const auto& write = faults_.write;
  const bool kills = write && (write->kind == kKillBefore || write->kind == kKillAfter);
  return (!write || struck_.contains("write")) && (!kills || dead_) &&
         (!faults_.watch || struck_.contains("event")) &&
         (faults_.first_lists.ok() || struck_.contains("list")) &&
         (faults_.first_watches.ok() || struck_.contains("watch"));
}

void FaultClient::Kill() {
  dead_ = true;
  death_.request_stop();
}

absl::StatusOr<Object> FaultClient::Fated(Write write, const Call& call) {
  using enum WriteFault::Kind;
  if (dead_) return DeadStatus();
  int nth = 0;
  {
    const std::lock_guard lock(mutex_);
    writes_.push_back(std::move(write));
    nth = static_cast<int>(writes_.size());
  }
  const auto& fault = faults_.write;
  if (!fault || nth < fault->nth || nth >= fault->nth + fault->times) return call();
  {
    const std::lock_guard lock(mutex_);
    struck_.insert("write");
  }
  if (fault->kind == kRefused) return fault->refusal;
  if (fault->kind == kKillBefore) {
    Kill();
    return DeadStatus();
  }
  auto done = call();
  if (fault->kind == kKillAfter) Kill();
  return absl::UnavailableError("the answer is lost");
}

absl::Status FaultClient::First(const std::string& call, const Kind& kind,
                                const absl::Status& fate) {
  if (dead_) return DeadStatus();
  const std::lock_guard lock(mutex_);
  if (!asked_.insert(call + " " + kind.plural).second) return absl::OkStatus();
  if (!fate.ok()) struck_.insert(call);
  return fate;
}

absl::StatusOr<Object> FaultClient::Get(const Kind& kind, const Key& key) {
  if (dead_) return DeadStatus();
  if (key.name.find("-token-") != std::string::npos || kind.kind == "NetworkPolicy") {
    return absl::PermissionDeniedError("the operator may create it and not read it");
  }
  return store_.Get(kind, key);
}

absl::StatusOr<kube::Page> FaultClient::List(const Kind& kind, const kube::ListOptions& options) {
  if (absl::Status fate = First("list", kind, faults_.first_lists); !fate.ok()) return fate;
  return store_.List(kind, options);
}

absl::Status FaultClient::Watch(const Kind& kind, const kube::WatchOptions& options,
                                std::stop_token stop,
                                const std::function<void(WatchEvent)>& on_event) {
  if (absl::Status fate = First("watch", kind, faults_.first_watches); !fate.ok()) return fate;
  std::stop_source end;
  const std::stop_callback on_stop(stop, [&end] { end.request_stop(); });
  const std::stop_callback on_death(death_.get_token(), [&end] { end.request_stop(); });
  absl::Status bent;
  const absl::Status status =
      store_.Watch(kind, options, end.get_token(), [&](const WatchEvent& event) {
        std::vector<WatchEvent> deliver;
        bool ends = false;
        bent = Bend(kind, event, deliver, ends);
        for (WatchEvent& one : deliver) on_event(std::move(one));
        if (ends || !bent.ok()) end.request_stop();
      });
  if (dead_) return DeadStatus();
  return bent.ok() ? status : bent;
}

absl::Status FaultClient::Bend(const Kind& kind, const WatchEvent& event,
                               std::vector<WatchEvent>& deliver, bool& ends) {
  using enum WatchFault::Kind;
  const std::lock_guard lock(mutex_);
  Stream& stream = streams_[kind.plural];
  const int nth = ++stream.count;
  const auto& fault = faults_.watch;
  const bool here = fault && fault->plural == kind.plural && nth >= fault->nth;
  if (here) struck_.insert("event");
  if (here && fault->kind == kLate) std::this_thread::sleep_for(kLag);
  if (here && nth == fault->nth) {
    switch (fault->kind) {
      case kEnds:
        ends = true;
        return absl::OkStatus();
      case kBreaks:
        return absl::UnavailableError("the connection broke");
      case kAway:
        std::this_thread::sleep_for(kLag);
        return absl::OutOfRangeError("too old resource version");
      case kGone:
        return absl::OutOfRangeError("too old resource version");
      case kGoesBack:
        deliver = stream.seen;
        break;
      case kTwice:
        deliver.push_back(event);
        break;
      case kLate:
        break;
    }
  }
  stream.seen.push_back(event);
  deliver.push_back(event);
  return absl::OkStatus();
}

absl::StatusOr<Object> FaultClient::Create(const Kind& kind, const Object& object) {
  return Fated({"create", kind.kind, kube::Name(object)},
               [&] { return store_.Create(kind, object); });
}

absl::StatusOr<Object> FaultClient::Update(const Kind& kind, const Object& object) {
  return Fated({"update", kind.kind, kube::Name(object)},
               [&] { return store_.Update(kind, object); });
}

absl::StatusOr<Object> FaultClient::UpdateStatus(const Kind& kind, const Object& object) {
  return Fated({"update-status", kind.kind, kube::Name(object)},
               [&] { return store_.UpdateStatus(kind, object); });
}

absl::Status FaultClient::Delete(const Kind& kind, const Key& key,
                                 const kube::Preconditions& expected) {
  return FatedDelete(kind, key, [&] { return store_.Delete(kind, key, expected); });
}

absl::Status FaultClient::ForceDelete(const Kind& kind, const Key& key,
                                      const kube::Preconditions& expected) {
  return FatedDelete(kind, key, [&] { return store_.ForceDelete(kind, key, expected); });
}

absl::Status FaultClient::FatedDelete(const Kind& kind, const Key& key,
                                      const std::function<absl::Status()>& call) {
  return Fated({"delete", kind.kind, key.name},
               [&]() -> absl::StatusOr<Object> {
                 absl::Status status = call();
                 if (!status.ok()) return status;
                 return Object();
               })
      .status();
}

std::vector<WatchEvent> HistoryOf(kube::Client& store, const Kind& kind) {
  static const std::string kSentinel = "sentinel";
  const auto made = store.Create(
      kind, {{"apiVersion", kind.ApiVersion()},
             {"kind", kind.kind},
             {"metadata", {{"generateName", kSentinel + "-"}, {"namespace", kSentinel}}}});
  std::vector<WatchEvent> events;
  std::stop_source stop;
  kube::WatchOptions from_the_start;
  from_the_start.resource_version = "1";
  const absl::Status status =
      store.Watch(kind, from_the_start, stop.get_token(), [&](WatchEvent event) {
        if (kube::Uid(event.object) == kube::Uid(*made)) stop.request_stop();
        if (event.type != WatchEvent::Type::kBookmark &&
            kube::Namespace(event.object) != kSentinel) {
          events.push_back(std::move(event));
        }
      });
  return events;
}

}  // namespace lockstep::testing
