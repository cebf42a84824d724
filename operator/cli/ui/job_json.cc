#include "operator/cli/ui/job_json.h"

#include <sstream>
#include <string>

#include "api/v1/conditions.h"
#include "api/v1/enum_names.h"
#include "api/v1/test_metrics.h"
#include "base/printable.h"
#include "operator/cli/text/job_rows.h"
#include "operator/cli/text/job_table.h"
#include "operator/cli/text/millis.h"
#include "operator/cli/text/one_line.h"
#include "operator/cli/text/or_null.h"
#include "operator/cli/top/top_text.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostReplicaRows = 200, kMostEventRows = 50, kMostRankRows = 200;
constexpr std::size_t kMostUnread = 3;

Json ConditionsJson(const api::TrainingJobStatus& status) {
  Json list = Json::array();
  for (const api::Condition& condition : status.conditions) {
    list.push_back({{"type", condition.type},
                    {"status", api::NameOf(condition.status)},
                    {"reason", condition.reason},
                    {"message", condition.message},
                    {"since", MillisOrNull(condition.last_transition_time)}});
  }
  return list;
}

Json ReplicasJson(const JobFacts& facts) {
  ReplicaRows replicas;  // left empty if pods may not be listed: rows without pods would mislead
  if (facts.pods_error.empty()) replicas = RowsOfReplicas(facts, kMostReplicaRows);
  Json list = Json::array();
  for (const ReplicaRow& row : replicas.rows) {
    list.push_back({{"replica", row.replica},
                    {"node", OrNull(row.node)},
                    {"restarts", OrNull(row.restarts)},
                    {"created", MillisOrNull(row.created)},
                    {"state", OneLine(row.state)}});
  }
  return {{"rows", std::move(list)},
          {"names", replicas.names},
          {"running", replicas.running},
          {"omitted", replicas.omitted},
          {"error", OrNull(facts.pods_error)}};
}

Json EventsJson(const JobFacts& facts) {
  Json list = Json::array();
  for (const EventRow& row : RowsOfEvents(facts.events, kMostEventRows)) {
    list.push_back({{"last", MillisOrNull(row.last)},
                    {"count", row.count},
                    {"type", row.type},
                    {"object", row.object},
                    {"reason", row.reason},
                    {"message", OneLine(row.message)}});
  }
  return list;
}

// The JSON of `lockstep top`, with a bounded number of ranks and of unread pods, and how many of
// each are left out.
Json TopJson(const JobTop& top) {
  JobTop shown = top;
  shown.times.ranks = RanksToShow(top.times.ranks, kMostRankRows);
  if (shown.unread.size() > kMostUnread) shown.unread.resize(kMostUnread);
  Json json = ToJson(shown);
  json["ranks_omitted"] = top.times.ranks.size() - shown.times.ranks.size();
  json["unread_omitted"] = top.unread.size() - shown.unread.size();
  return json;
}

// The lines that `describe` prints below its headline, before the progress (JobDetails).
Json WordsJson(const JobFacts& facts) {
  Json words = Json::array();
  if (!facts.invalid.empty()) words.push_back("Invalid: " + facts.invalid);
  std::istringstream lines(JobDetails(facts.job));
  for (std::string line; std::getline(lines, line);) words.push_back(line);
  return words;
}

}  // namespace

Json MillisOrNull(const std::optional<Time>& time) {
  if (!time || *time == Time()) return nullptr;
  return Millis(*time);
}

Json ListedJson(const ListedJob& listed) {
  const api::TrainingJobStatus& status = listed.job.status;
  const api::Progress progress = status.progress.value_or(api::Progress());
  const bool over = api::IsTerminal(status);
  const api::RestartCounts& restarts = status.restarts;
  return {{"namespace", listed.key.namespace_name},
          {"name", listed.key.name},
          {"job", listed.job.metadata.name},
          {"state", listed.state},
          {"ready", OrNull(status.ready_replicas)},
          {"step", progress.step},
          {"total_steps", progress.total_steps},
          {"loss", OrNull(progress.loss)},
          {"accuracy", OrNull(progress.accuracy)},
          {"test_accuracy", OrNull(progress.test_accuracy)},
          {"test_metrics", api::TestMetricsToJson(progress.test_metrics)},
          {"examples_per_second", progress.examples_per_second},
          {"goodput", OrNull(progress.goodput)},
          {"remaining_seconds", over ? Json() : OrNull(progress.estimated_remaining_seconds)},
          {"restarts", status.restart_count},
          {"restarts_by_program", restarts.application},
          {"restarts_by_disruptions", restarts.disruption},
          {"created", MillisOrNull(listed.job.metadata.creation_time)},
          {"ended", MillisOrNull(status.completion_time)}};
}

Json LookJson(const JobLook& look, const Curve& curve) {
  Json json = ListedJson(look.listed);
  json["words"] = WordsJson(look.facts);
  json["conditions"] = ConditionsJson(look.facts.job.status);
  json["replicas"] = ReplicasJson(look.facts);
  json["events"] = EventsJson(look.facts);
  json["events_error"] = OrNull(look.facts.events_error);
  json["top"] = TopJson(look.seen.top);
  json["curve"] = ToJson(curve);
  MakePrintable(json);
  return json;
}

void MakePrintable(Json& json) {
  if (json.is_string()) {
    json = Printable(json.get_ref<const std::string&>());
  } else if (json.is_structured()) {
    for (Json& member : json) MakePrintable(member);
  }
}

}  // namespace lockstep::cli
