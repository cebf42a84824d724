#include "operator/cli/text/job_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "api/v1/conditions.h"
#include "api/v1/enum_names.h"
#include "base/printable.h"
#include "base/rfc3339.h"
#include "base/text_table.h"
#include "operator/cli/text/job_rows.h"
#include "operator/cli/text/job_table.h"
#include "operator/cli/text/one_line.h"
#include "operator/cli/text/or_null.h"
#include "operator/cli/text/plan_text.h"
#include "operator/cli/text/progress_line.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMostReplicas = 40, kMostEvents = 20;  // lines
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

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
  if (progress.test_mean_absolute_error) {
    line += fmt::format(", test mean absolute error {:.4g}", *progress.test_mean_absolute_error);
  }
  for (const auto& [metric, value] : progress.test_metrics) {
    line += fmt::format(", test {} {:.4g}", api::NameOf(metric), value);
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
    const int stages = spec.strategy->stages;
    const api::Sharding sharding = spec.strategy->sharding;
    text += fmt::format(
        "strategy: {}{}{}\n", api::NameOf(spec.strategy->type),
        stages == 1 ? "" : fmt::format(", {} stages", stages),
        sharding == api::Sharding::kNone ? "" : fmt::format(", {}", api::NameOf(sharding)));
  }
  if (spec.training) text += TrainingText(*spec.training);
  if (spec.suspend) text += "suspend: true\n";
  return text;
}

TextRow TextOfReplica(const ReplicaRow& row, Time now) {
  return {row.replica, row.node.empty() ? "-" : row.node,
          row.restarts ? std::to_string(*row.restarts) : "-",
          row.restarts ? AgeOf(row.created, now) : "-", OneLine(row.state)};
}

std::string ReplicaTable(const JobFacts& facts, Time now) {
  const ReplicaRows replicas = RowsOfReplicas(facts, kMostReplicas);
  std::vector<TextRow> rows = {{"REPLICA", "NODE", "RESTARTS", "AGE", "STATE"}};
  for (const ReplicaRow& row : replicas.rows) rows.push_back(TextOfReplica(row, now));
  std::string text = rows.size() > 1 ? "\n" + TextTable(rows) : "";
  if (replicas.running > 0) text += fmt::format("{} more run\n", replicas.running);
  if (replicas.omitted > 0) text += fmt::format("{} more do not run\n", replicas.omitted);
  return text;
}

std::string EventTable(const JobFacts& facts, Time now) {
  std::vector<TextRow> rows = {{"AGE", "TYPE", "OBJECT", "REASON", "EVENT"}};
  for (const EventRow& row : RowsOfEvents(facts.events, kMostEvents)) {
    const std::string times = row.count > 1 ? fmt::format(" ({} times)", row.count) : "";
    rows.push_back({FormatAge(now - row.last), row.type, row.object, row.reason,
                    OneLine(row.message) + times});
  }
  return rows.size() > 1 ? "\n" + TextTable(rows) : "";
}

std::string LogText(const ReplicaLog& log) {
  const std::string whose =
      log.is_init ? fmt::format("{} (init container {})", log.replica, log.container) : log.replica;
  if (!log.error.empty())
    return fmt::format("\nThe log of {} cannot be read: {}\n", whose, log.error);
  if (log.text.empty()) return fmt::format("\nThe log of {} is empty.\n", whose);
  return fmt::format("\nThe last lines of the log of {}:\n{}", whose, log.text);
}

OrderedJson ReplicasJson(const JobFacts& facts) {
  OrderedJson list = OrderedJson::array();
  for (const ReplicaRow& row : RowsOfReplicas(facts, kAll).rows) {
    list.push_back({{"replica", row.replica},
                    {"pod", OrNull(row.pod)},
                    {"node", OrNull(row.node)},
                    {"restarts", row.restarts ? OrderedJson(*row.restarts) : OrderedJson()},
                    {"state", row.state}});
  }
  return list;
}

OrderedJson EventsJson(const std::vector<kube::Object>& events) {
  OrderedJson list = OrderedJson::array();
  for (const EventRow& row : RowsOfEvents(events, kAll)) {
    list.push_back({{"time", FormatRfc3339(row.last)},
                    {"type", row.type},
                    {"object", row.object},
                    {"reason", row.reason},
                    {"message", row.message},
                    {"count", row.count}});
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
                   {"container", facts.log->container},
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
  text += EventTable(facts, now);
  if (!facts.events_error.empty()) {
    text += fmt::format("\nThe events cannot be read: {}\n", facts.events_error);
  }
  if (facts.log) text += LogText(*facts.log);
  return Printable(text);
}

}  // namespace lockstep::cli
