#include "operator/cli/cluster/job_facts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/v1/names.h"
#include "base/rfc3339.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/cli/cluster/pod_state.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::cli {
namespace {

using kube::Object;

// Events of the job, and of pods by their names, since pods that are gone have events too. Events
// of an earlier job of the same name are older than this one.
absl::StatusOr<std::vector<Object>> EventsOf(kube::Client& client, const JobFacts& facts) {
  const api::TrainingJob& job = facts.job;
  std::set<std::string> pods;
  for (const Object& pod : facts.pods) pods.insert(kube::Name(pod));
  for (const controller::Replica& replica : controller::AllReplicas(job)) {
    pods.insert(controller::PodName(job, replica.role, replica.index));
  }
  const auto is_of_job = [&](const Object& event) {
    const Object& regarding = kube::Member(event, "involvedObject");
    if (kube::TextMember(regarding, "uid") == job.metadata.uid) return true;
    if (kube::TextMember(regarding, "kind") != kube::kPodKind.kind) return false;
    const auto created =
        ParseRfc3339(kube::TextMember(kube::Member(event, "metadata"), "creationTimestamp"));
    return pods.contains(kube::TextMember(regarding, "name")) &&
           !(created && job.metadata.creation_time && *created < *job.metadata.creation_time);
  };
  std::vector<Object> events;
  LOCKSTEP_RETURN_IF_ERROR(ForEachListed(client, kube::kCoreEventKind,
                                         {.namespace_name = job.metadata.namespace_name},
                                         [&](const Object& event) {
                                           if (is_of_job(event)) events.push_back(event);
                                         }));
  return events;
}

// Returns the pod with a failure to show that the status blames, or else the first such pod;
// null: none. The failure in the status may be long past, and the pod a healthy successor.
const Object* PodToBlame(const JobFacts& facts) {
  const std::optional<api::Failure>& failure = facts.job.status.failure;
  const auto has_failure = [](const Object& pod) {
    return IsInTrouble(pod) || KubeletRestarts(pod) > 0;
  };
  const auto is_blamed = [&](const Object& pod) {
    return failure && has_failure(pod) && kube::Label(pod, api::kLabelRole) == failure->role &&
           kube::Label(pod, api::kLabelReplicaIndex) == std::to_string(failure->index);
  };
  auto found = std::ranges::find_if(facts.pods, is_blamed);
  if (found == facts.pods.end()) found = std::ranges::find_if(facts.pods, IsInTrouble);
  if (found == facts.pods.end()) found = std::ranges::find_if(facts.pods, has_failure);
  return found == facts.pods.end() ? nullptr : &*found;
}

// A container that was restarted, and has not failed again, has told its trouble before.
std::optional<ReplicaLog> LogToBlame(const JobFacts& facts, const LogReader& read_log) {
  const Object* pod = PodToBlame(facts);
  if (pod == nullptr) return std::nullopt;
  ReplicaLog log{.replica = ReplicaName(*pod),
                 .container = ContainerToBlame(*pod),
                 .is_init = !InitContainerToBlame(*pod).empty(),
                 .text = {},
                 .error = {}};
  const bool previous = KubeletRestarts(*pod) > 0 && !HasEnded(*pod, log.container);
  absl::StatusOr<std::string> text = read_log(kube::KeyOf(*pod), log.container, previous);
  if (!text.ok()) {
    log.error = std::string(text.status().message());
    return log;
  }
  log.text = *std::move(text);
  if (!log.text.empty() && !log.text.ends_with('\n')) log.text += '\n';
  return log;
}

}  // namespace

absl::StatusOr<JobFacts> ReadFactsAsAllowed(kube::Client& client, const kube::Key& job) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Object object, client.Get(controller::kTrainingJobKind, job));
  const controller::ObservedJob observed = controller::ObserveJob(object);
  JobFacts facts{.job = observed.job,
                 .invalid = observed.invalid.value_or(""),
                 .pods = {},
                 .pods_error = {},
                 .events = {},
                 .events_error = {},
                 .log = {}};
  absl::StatusOr<std::vector<Object>> pods = ReadPods(client, facts.job);
  if (absl::IsPermissionDenied(pods.status())) {
    facts.pods_error = std::string(pods.status().message());
    return facts;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(facts.pods, std::move(pods));
  return facts;
}

absl::StatusOr<JobFacts> ReadJobFacts(kube::Client& client, const kube::Key& job) {
  LOCKSTEP_ASSIGN_OR_RETURN(JobFacts facts, ReadFactsAsAllowed(client, job));
  if (!facts.pods_error.empty()) return absl::PermissionDeniedError(facts.pods_error);
  return facts;
}

void ReadEvents(kube::Client& client, JobFacts& facts) {
  absl::StatusOr<std::vector<Object>> events = EventsOf(client, facts);
  if (events.ok()) {
    facts.events = *std::move(events);
  } else {
    facts.events_error = std::string(events.status().message());
  }
}

void ReadLogToBlame(const LogReader& read_log, JobFacts& facts) {
  facts.log = LogToBlame(facts, read_log);
}

}  // namespace lockstep::cli
