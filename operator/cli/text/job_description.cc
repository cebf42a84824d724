#include "operator/cli/text/job_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "api/v1/conditions.h"
#include "api/v1/enum_names.h"
#include "api/v1/names.h"
#include "base/printable.h"
#include "base/rfc3339.h"
#include "base/text_table.h"
#include "operator/cli/cluster/job_pods.h"
#include "operator/cli/cluster/pod_state.h"
#include "operator/cli/text/job_table.h"
#include "operator/cli/text/one_line.h"
#include "operator/cli/text/or_null.h"
#include "operator/cli/text/plan_text.h"
#include "operator/cli/text/progress_line.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::cli {
namespace {

using controller::Replica;
using OrderedJson = nlohmann::ordered_json;
using kube::Object;
using kube::TextMember;

constexpr std::size_t kMostReplicas = 40, kMostEvents = 20;  // lines

std::string AgeOf(const std::optional<Time>& time, Time now) {
  return time ? FormatAge(now - *time) : "-";
}

// ", 7 restarts (6 by its program, 1 by disruptions)"
std::string RestartsText(const api::TrainingJobStatus& status) {
  if (status.restart_count <= 0) return "";
  const api::RestartCounts& restarts = status.restarts;
  const int others =
      status.restart_count - restarts.application - restarts.disruption - restarts.evaluator;
  std::vector<std::string> kinds;
  for (const auto& [count, kind] :
       {std::pair(restarts.application, "by its program"),
        std::pair(restarts.disruption, "by disruptions"),
        std::pair(restarts.evaluator, "of the Evaluator"), std::pair(others, "by the kubelet")}) {
    if (count > 0) kinds.push_back(fmt::format("{} {}", count, kind));
  }
  return fmt::format(", {} ({})", Plural(status.restart_count, "restart"), fmt::join(kinds, ", "));
}

std::string Headline(const JobFacts& facts, Time now) {
  const api::TrainingJob& job = facts.job;
  std::string line =
      fmt::format("{} in namespace {}: {}", job.metadata.name, job.metadata.namespace_name,
                  job.status.state.empty() ? "not seen by the operator yet" : job.status.state);
  if (job.metadata.creation_time) {
    line += fmt::format(", created {} ago", AgeOf(job.metadata.creation_time, now));
  }
  line += RestartsText(job.status);
  line += '\n';
  if (!facts.invalid.empty()) line += fmt::format("Invalid: {}\n", facts.invalid);
  return line;
}

std::string ProgressText(const api::TrainingJobStatus& status, Time now) {
  if (!status.progress) return "";
  const api::Progress& progress = *status.progress;
  std::string line = fmt::format("progress: step {}", progress.step);
  if (progress.total_steps > 0) line += fmt::format(" of {}", progress.total_steps);
  if (progress.loss) line += fmt::format(", loss {:.4g}", *progress.loss);
  if (progress.test_accuracy) {
    line += fmt::format(", test accuracy {:.4g} %", 100 * *progress.test_accuracy);
  }
  if (progress.estimated_remaining_seconds && !api::IsTerminal(status)) {
    line += fmt::format(", {} left", FormatSeconds(*progress.estimated_remaining_seconds));
  }
  if (progress.update_time) {
    line += fmt::format(", reported {} ago", AgeOf(progress.update_time, now));
  }
  return line + '\n';
}

std::string TrainingText(const api::TrainingSpec& training) {
  std::string line = fmt::format(
      "training: {} on {}{}, ",
      training.model.name.empty() ? "layers of its own" : training.model.name,
      api::NameOf(training.dataset.format),
      training.dataset.path.empty() ? "" : fmt::format(" in {}", training.dataset.path));
  if (training.epochs) line += Plural(*training.epochs, "epoch");
  if (training.steps) line += Plural(*training.steps, "step");
  const api::BatchSizeSpec& batch = training.batch_size;
  if (batch.global) line += fmt::format(" of batches of {}", *batch.global);
  if (batch.per_replica) line += fmt::format(" of batches of {} per replica", *batch.per_replica);
  return line + '\n';
}

std::string SpecText(const api::TrainingJobSpec& spec) {
  std::string text;
  if (spec.strategy) {
    text += fmt::format("strategy: {}\n", api::NameOf(spec.strategy->type));
  }
  if (spec.training) text += TrainingText(*spec.training);
  if (spec.suspend) text += "suspend: true\n";
  return text;
}

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

TextRow RowOfPod(const std::string& replica, const Object& pod, Time now) {
  const std::string node = TextMember(kube::Member(pod, "spec"), "nodeName");
  const auto created = ParseRfc3339(TextMember(kube::Member(pod, "metadata"), "creationTimestamp"));
  return {replica, node.empty() ? "-" : node, std::to_string(KubeletRestarts(pod)),
          AgeOf(created, now), OneLine(PodState(pod))};
}

TextRow RowOfReplica(const api::TrainingJob& job, const PodsByReplica& pods, const Replica& replica,
                     Time now) {
  const std::string name = controller::Describe(replica);
  const auto pod = pods.find(name);
  if (pod != pods.end()) return RowOfPod(name, *pod->second, now);
  return {name, "-", "-", "-", controller::HasCompleted(job, replica) ? "Completed" : "no pod"};
}

// Of a large job only those that do not simply run.
std::string ReplicaTable(const JobFacts& facts, Time now) {
  std::vector<TextRow> rows = {{"REPLICA", "NODE", "RESTARTS", "AGE", "STATE"}};
  const std::vector<Replica> replicas = controller::AllReplicas(facts.job);
  const PodsByReplica pods = NewestPods(facts.pods);
  std::set<std::string> names;
  std::size_t running = 0, omitted = 0;
  for (const Replica& replica : replicas) {
    names.insert(controller::Describe(replica));
    TextRow row = RowOfReplica(facts.job, pods, replica, now);
    if (replicas.size() > kMostReplicas && row.back() == "Running") {
      ++running;
    } else if (rows.size() > kMostReplicas) {
      ++omitted;
    } else {
      rows.push_back(std::move(row));
    }
  }
  // The spec may have shrunk since, or be one that this program cannot read.
  for (const Object& pod : facts.pods) {
    const std::string name = ReplicaName(pod);
    if (!names.contains(name)) rows.push_back(RowOfPod(name, pod, now));
  }
  std::string text = rows.size() > 1 ? "\n" + TextTable(rows) : "";
  if (running > 0) text += fmt::format("{} more run\n", running);
  if (omitted > 0) text += fmt::format("{} more do not run\n", omitted);
  return text;
}

struct SeenEvent {
  Time last;
  int count = 1;
  const Object* event = nullptr;
};

// Recorders of the newer API (events.k8s.io) fill eventTime and series, those of this one the rest.
SeenEvent ReadEvent(const Object& event) {
  const Object& series = kube::Member(event, "series");
  SeenEvent seen{.last = {}, .event = &event};
  for (const std::string& text :
       {TextMember(series, "lastObservedTime"), TextMember(event, "lastTimestamp"),
        TextMember(event, "eventTime"),
        TextMember(kube::Member(event, "metadata"), "creationTimestamp")}) {
    const auto time = ParseRfc3339(text);
    if (!time) continue;
    seen.last = *time;
    break;
  }
  seen.count = std::max({1, kube::IntMember(series, "count"), kube::IntMember(event, "count")});
  return seen;
}

std::vector<SeenEvent> ByTime(const std::vector<Object>& events) {
  std::vector<SeenEvent> seen;
  for (const Object& event : events) seen.push_back(ReadEvent(event));
  std::ranges::stable_sort(seen, {}, &SeenEvent::last);
  return seen;
}

std::string EventTable(const std::vector<Object>& events, Time now) {
  std::vector<SeenEvent> seen = ByTime(events);
  if (seen.size() > kMostEvents) seen.erase(seen.begin(), seen.end() - kMostEvents);
  std::vector<TextRow> rows = {{"AGE", "TYPE", "OBJECT", "REASON", "EVENT"}};
  for (const SeenEvent& one : seen) {
    const std::string times = one.count > 1 ? fmt::format(" ({} times)", one.count) : "";
    rows.push_back({FormatAge(now - one.last), TextMember(*one.event, "type"),
                    TextMember(kube::Member(*one.event, "involvedObject"), "name"),
                    TextMember(*one.event, "reason"),
                    OneLine(TextMember(*one.event, "message")) + times});
  }
  return rows.size() > 1 ? "\n" + TextTable(rows) : "";
}

std::string LogText(const ReplicaLog& log) {
  if (!log.error.empty()) {
    return fmt::format("\nThe log of {} cannot be read: {}\n", log.replica, log.error);
  }
  if (log.text.empty()) return fmt::format("\nThe log of {} is empty.\n", log.replica);
  return fmt::format("\nThe last lines of the log of {}:\n{}", log.replica, log.text);
}

OrderedJson ReplicaJson(const std::string& replica, const Object* pod, const char* without_pod) {
  OrderedJson json = {{"replica", replica}};
  if (pod == nullptr) {
    return {{"replica", replica},
            {"pod", nullptr},
            {"node", nullptr},
            {"restarts", nullptr},
            {"state", without_pod}};
  }
  json["pod"] = kube::Name(*pod);
  json["node"] = OrNull(TextMember(kube::Member(*pod, "spec"), "nodeName"));
  json["restarts"] = KubeletRestarts(*pod);
  json["state"] = PodState(*pod);
  return json;
}

OrderedJson ReplicasJson(const JobFacts& facts) {
  const PodsByReplica pods = NewestPods(facts.pods);
  OrderedJson list = OrderedJson::array();
  std::set<std::string> names;
  for (const Replica& replica : controller::AllReplicas(facts.job)) {
    const std::string name = controller::Describe(replica);
    names.insert(name);
    const auto pod = pods.find(name);
    list.push_back(
        ReplicaJson(name, pod == pods.end() ? nullptr : pod->second,
                    controller::HasCompleted(facts.job, replica) ? "Completed" : "no pod"));
  }
  for (const auto& [name, pod] : pods) {
    if (!names.contains(name)) list.push_back(ReplicaJson(name, pod, ""));
  }
  return list;
}

OrderedJson EventsJson(const std::vector<Object>& events) {
  OrderedJson list = OrderedJson::array();
  for (const SeenEvent& one : ByTime(events)) {
    list.push_back({{"time", FormatRfc3339(one.last)},
                    {"type", TextMember(*one.event, "type")},
                    {"object", TextMember(kube::Member(*one.event, "involvedObject"), "name")},
                    {"reason", TextMember(*one.event, "reason")},
                    {"message", TextMember(*one.event, "message")},
                    {"count", one.count}});
  }
  return list;
}

}  // namespace

nlohmann::ordered_json JobDocument(const JobFacts& facts) {
  const auto object = api::TrainingJobToJson(facts.job);
  OrderedJson json;
  json["namespace"] = facts.job.metadata.namespace_name;
  json["name"] = facts.job.metadata.name;
  json["state"] = StateName(facts.job.status);
  json["invalid"] = OrNull(facts.invalid);
  json["status"] =
      object.contains("status") ? OrderedJson(object.at("status")) : OrderedJson::object();
  json["replicas"] = ReplicasJson(facts);
  json["events"] = EventsJson(facts.events);
  json["events_error"] = OrNull(facts.events_error);
  json["log"] = nullptr;
  if (facts.log) {
    json["log"] = {{"replica", facts.log->replica},
                   {"text", facts.log->text},
                   {"error", OrNull(facts.log->error)}};
  }
  return json;
}

std::string DescribeJob(const JobFacts& facts, Time now) {
  std::string text = Headline(facts, now);
  text += JobDetails(facts.job);
  text += ProgressText(facts.job.status, now);
  if (facts.invalid.empty()) text += SpecText(facts.job.spec);  // it is not read in full otherwise
  text += ReplicaTable(facts, now);
  text += EventTable(facts.events, now);
  if (!facts.events_error.empty()) {
    text += fmt::format("\nThe events cannot be read: {}\n", facts.events_error);
  }
  if (facts.log) text += LogText(*facts.log);
  return Printable(text);
}

}  // namespace lockstep::cli
