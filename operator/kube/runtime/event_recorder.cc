#include "operator/kube/runtime/event_recorder.h"

#include <fmt/format.h>

#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/shorten.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kLongestNote = 1024;  // bytes; the API server's limit

}  // namespace

EventRecorder::EventRecorder(Client& client, const Clock& clock, std::string controller,
                             std::string instance)
    : client_(client),
      clock_(clock),
      controller_(std::move(controller)),
      instance_(std::move(instance)),
      recent_(RecentEvents::Limits()) {}

void EventRecorder::Record(const Kind& kind, const Identity& regarding, EventType type,
                           const std::string& reason, const std::string& action,
                           const std::string& note) {
  // A note can be long and tenant-controlled, so only a digest of it is kept.
  const RecentEvents::Key same{regarding.uid,
                               Digest(fmt::format("{}/{}/{}", reason, action, note))};
  const SteadyTime now = clock_.SteadyNow();
  Object event = MakeEvent(kind, regarding, type, reason, action, note);
  if (const std::optional<RecentEvents::Series> known = Find(same, now)) {
    const int count = known->count + 1;
    Object again = event;
    again["metadata"]["name"] = known->name;
    again["metadata"]["resourceVersion"] = known->resource_version;
    again["eventTime"] = known->event_time;
    again["series"] = {{"count", count}, {"lastObservedTime", FormatApiMicroTime(clock_.Now())}};
    if (const auto updated = client_.Update(kEventKind, again); updated.ok()) {
      return Remember(same, *updated, known->event_time, count, now);
    }  // otherwise the server no longer has the Event
  }
  const auto created = client_.Create(kEventKind, event);
  if (!created.ok()) {
    LogWarning("event was not recorded", {{"reason", reason},
                                          {"note", Shortened(note, kLongestNote)},
                                          {"error", created.status().ToString()}});
    return;
  }
  Remember(same, *created, TextMember(event, "eventTime"), 1, now);
}

Object EventRecorder::MakeEvent(const Kind& kind, const Identity& regarding, EventType type,
                                const std::string& reason, const std::string& action,
                                const std::string& note) {
  const Time now = clock_.Now();
  const std::string space =
      regarding.key.namespace_name.empty() ? "default" : regarding.key.namespace_name;
  const auto stamp = static_cast<std::uint64_t>(now.time_since_epoch().count());
  return {{"apiVersion", kEventKind.ApiVersion()},
          {"kind", kEventKind.kind},
          {"metadata",
           {{"name", fmt::format("{}.{:x}{:02x}", regarding.key.name, stamp, sequence_++ & 0xffU)},
            {"namespace", space}}},
          {"eventTime", FormatApiMicroTime(now)},
          {"reportingController", controller_},
          {"reportingInstance", instance_},
          {"action", action},
          {"reason", reason},
          {"regarding",
           {{"apiVersion", kind.ApiVersion()},
            {"kind", kind.kind},
            {"name", regarding.key.name},
            {"namespace", regarding.key.namespace_name},
            {"uid", regarding.uid}}},
          {"note", Shortened(note, kLongestNote)},
          {"type", type == EventType::kWarning ? "Warning" : "Normal"}};
}

std::optional<RecentEvents::Series> EventRecorder::Find(const RecentEvents::Key& same,
                                                        SteadyTime now) {
  const std::lock_guard lock(mutex_);
  return recent_.Find(same, now);
}

void EventRecorder::Remember(const RecentEvents::Key& same, const Object& event,
                             const std::string& event_time, int count, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  recent_.Remember(Namespace(event), same, {Name(event), ResourceVersion(event), event_time, count},
                   now);
}

void EventRecorder::Forget(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  recent_.Forget(uid);
}

}  // namespace lockstep::kube
