#include "operator/cli/text/job_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "api/v1/conditions.h"
#include "api/v1/names.h"
#include "base/rfc3339.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/cli/cluster/pod_state.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::cli {
namespace {

using controller::Replica;
using kube::Object;
using kube::TextMember;

// Each replica's pod, of the newest attempt, by the replica's name: a job may have 10,000 of each.
using PodsByReplica = std::map<std::string, const Object*>;

PodsByReplica NewestPods(const std::vector<Object>& pods) {
  const auto attempt_of = [](const Object& pod) {
    return std::atoi(kube::Label(pod, api::kLabelAttempt).c_str());
  };
  PodsByReplica newest;
  for (const Object& pod : pods) {
    const Object*& found = newest[ReplicaName(pod)];
    if (found == nullptr || attempt_of(pod) > attempt_of(*found)) found = &pod;
  }
  return newest;
}

ReplicaRow RowOfPod(const std::string& replica, const Object& pod) {
  return {.replica = replica,
          .pod = kube::Name(pod),
          .node = TextMember(kube::Member(pod, "spec"), "nodeName"),
          .restarts = KubeletRestarts(pod),
          .created = ParseRfc3339(TextMember(kube::Member(pod, "metadata"), "creationTimestamp")),
          .state = PodState(pod)};
}

std::string StateWithoutPod(const api::TrainingJob& job, const Replica& replica) {
  if (controller::ReplicaCompleted(job, replica)) return "Completed";
  if (controller::HasStarted(job, replica.role) || api::IsTerminal(job.status)) return "no pod";
  std::vector<std::string_view> awaited;
  for (const api::DependencySpec& each : job.spec.replica_specs.at(replica.role).depends_on) {
    if (each.role) awaited.push_back(api::RoleKey(*each.role));
  }
  return fmt::format("waits for {}", fmt::join(awaited, " and "));
}

ReplicaRow RowOfReplica(const api::TrainingJob& job, const PodsByReplica& pods,
                        const Replica& replica) {
  const std::string name = controller::Describe(replica);
  const auto pod = pods.find(name);
  if (pod != pods.end()) return RowOfPod(name, *pod->second);
  return {.replica = name,
          .pod = {},
          .node = {},
          .restarts = {},
          .created = {},
          .state = StateWithoutPod(job, replica)};
}

// Recorders of the newer API (events.k8s.io) fill eventTime and series, those of this one the rest.
EventRow RowOfEvent(const Object& event) {
  const Object& series = kube::Member(event, "series");
  EventRow row;
  for (const std::string& text :
       {TextMember(series, "lastObservedTime"), TextMember(event, "lastTimestamp"),
        TextMember(event, "eventTime"),
        TextMember(kube::Member(event, "metadata"), "creationTimestamp")}) {
    const auto time = ParseRfc3339(text);
    if (!time) continue;
    row.last = *time;
    break;
  }
  row.count = std::max({1, kube::IntMember(series, "count"), kube::IntMember(event, "count")});
  row.type = TextMember(event, "type");
  row.object = TextMember(kube::Member(event, "involvedObject"), "name");
  row.reason = TextMember(event, "reason");
  row.message = TextMember(event, "message");
  return row;
}

}  // namespace

ReplicaRows RowsOfReplicas(const JobFacts& facts, std::size_t most) {
  ReplicaRows all;
  PodsByReplica pods = NewestPods(facts.pods);
  std::vector<ReplicaRow> rows;
  for (const Replica& replica : controller::AllReplicas(facts.job)) {
    rows.push_back(RowOfReplica(facts.job, pods, replica));
    pods.erase(rows.back().replica);
  }
  // The spec may have shrunk since, or be one that this program cannot read.
  for (const auto& [name, pod] : pods) rows.push_back(RowOfPod(name, *pod));
  const bool is_large = rows.size() > most;
  for (ReplicaRow& row : rows) {
    all.names.push_back(row.replica);
    if (is_large && row.state == "Running") {
      ++all.running;
    } else if (all.rows.size() >= most) {
      ++all.omitted;
    } else {
      all.rows.push_back(std::move(row));
    }
  }
  return all;
}

std::vector<EventRow> RowsOfEvents(const std::vector<Object>& events, std::size_t most) {
  std::vector<EventRow> rows;
  for (const Object& event : events) rows.push_back(RowOfEvent(event));
  std::ranges::stable_sort(rows, {}, &EventRow::last);
  if (rows.size() > most) rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(most));
  return rows;
}

}  // namespace lockstep::cli
