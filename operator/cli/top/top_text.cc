#include "operator/cli/top/top_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/printable.h"
#include "base/text_table.h"
#include "operator/cli/text/one_line.h"
#include "operator/cli/text/or_null.h"
#include "operator/cli/text/progress_line.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRanks = 20;
constexpr std::size_t kMostUnread = 3;

// The columns of a table: a phase, or several together.
struct Column {
  const char* title;
  const char* name;
  std::vector<ReportedPhase> phases;
};

const std::vector<Column>& Columns() {
  static const std::vector<Column> columns = {
      {"INPUT", "input", {kInput}},
      {"COMPUTE", "compute", {kCompute}},
      {"COMM", "communication", {kCommunication}},
      {"OPTIMIZER", "optimizer", {kOptimizer}},
      {"CHECKPOINT", "checkpoint", {kCheckpoint}},
      {"OTHER", "other", {kEvaluation, kRework}},
      {"IDLE", "idle", {kRendezvous, kIdle}},
  };
  return columns;
}

double ShareOf(const RankTimes& times, const Column& column) {
  double share = 0;
  for (const ReportedPhase phase : column.phases) share += times.Share(phase);
  return share;
}

std::string Milliseconds(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.4g} ms", *seconds * 1000) : "-";
}

std::string Percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f}%", *share * 100) : "-";
}

void AddTitles(TextRow& row) {
  for (const Column& column : Columns()) row.emplace_back(column.title);
}

void AddShares(const RankTimes& times, TextRow& row) {
  for (const Column& column : Columns()) {
    row.push_back(times.seconds > 0 ? Percent(ShareOf(times, column)) : "-");
  }
}

std::string StepsOf(const JobTop& job) {
  if (job.total_steps <= 0) return fmt::format("{:.0f}", job.step);
  return fmt::format("{:.0f}/{:.0f}", job.step, job.total_steps);
}

std::string LeftOf(const JobTop& job) {
  return job.remaining_seconds ? FormatSeconds(*job.remaining_seconds) : "-";
}

std::string LossOf(const JobTop& job) {
  return job.loss ? fmt::format("{:.4g}", *job.loss) : "-";
}

std::string ProgressOf(const JobTop& job) {
  std::string line = "step " + StepsOf(job);
  if (job.loss) line += ", loss " + LossOf(job);
  if (job.examples_per_second > 0) line += fmt::format(", {:.0f}/s", job.examples_per_second);
  if (job.remaining_seconds) line += fmt::format(", {} left", LeftOf(job));
  if (job.times.goodput) line += ", goodput " + Percent(job.times.goodput);
  return line + '\n';
}

std::string StepTimeOf(const RankTimes& total) {
  const std::optional<double> step = total.StepSeconds();
  if (!step) return total.seconds > 0 ? "no step has ended in this time\n" : "";
  std::string line = fmt::format("step time {}", Milliseconds(step));
  const char* separator = ": ";
  for (const Column& column : Columns()) {
    line +=
        fmt::format("{}{} {:.4g}", separator, column.name, ShareOf(total, column) * *step * 1000);
    separator = ", ";
  }
  return line + '\n';
}

std::size_t StragglersOf(const StepTimes& times) {
  return static_cast<std::size_t>(
      std::ranges::count_if(times.ranks, [](const RankTimes& rank) { return !!rank.slow; }));
}

std::string RankTable(const StepTimes& times) {
  if (times.ranks.empty()) return "";
  TextRow header = {"RANK", "REPLICA", "STEP", "STEP TIME"};
  AddTitles(header);
  header.emplace_back("");
  std::vector<TextRow> rows = {std::move(header)};
  for (const RankTimes& rank : RanksToShow(times.ranks, kMostRanks)) {
    TextRow row = {fmt::format("{}", rank.rank), rank.replica, fmt::format("{:.0f}", rank.step),
                   Milliseconds(rank.StepSeconds())};
    AddShares(rank, row);
    row.push_back(rank.slow ? fmt::format("straggler: +{:.0f}%", *rank.slow * 100) : "");
    rows.push_back(std::move(row));
  }
  std::string text = TextTable(rows);
  if (times.ranks.size() > kMostRanks) {
    text +=
        fmt::format("{} further ranks wait longer for others\n", times.ranks.size() - kMostRanks);
  }
  return text;
}

std::string UnreadText(const std::vector<UnreadPod>& unread) {
  std::string text;
  for (const UnreadPod& pod : unread) {
    if (&pod - unread.data() == kMostUnread) {
      return text + fmt::format("and of {} others\n", unread.size() - kMostUnread);
    }
    text +=
        fmt::format("no metrics of {}: {}\n", pod.replica, OneLine(std::string(pod.why.message())));
  }
  return text;
}

// Variants that train alone have a step, a loss and an end each. Returns the one that ends last;
// nullopt if the ranks train together, or if there is only one.
std::optional<RankMetrics> FurthestFromItsEnd(const std::vector<RankMetrics>& ranks) {
  std::vector<RankMetrics> variants;
  for (const RankMetrics& rank : ranks) {
    if (rank.total_steps <= 0) continue;
    if (rank.world != 1) return std::nullopt;
    variants.push_back(rank);
  }
  if (variants.size() < 2) return std::nullopt;
  return *std::ranges::min_element(
      variants, {}, [](const RankMetrics& rank) { return rank.step / rank.total_steps; });
}

Json PhasesJson(const RankTimes& times) {
  if (times.seconds <= 0) return nullptr;
  Json phases = Json::object();
  for (std::size_t i = 0; i < kPhases.size(); ++i) phases[kPhases[i]] = times.Share(i);
  return phases;
}

}  // namespace

std::vector<RankTimes> RanksToShow(const std::vector<RankTimes>& ranks, std::size_t most) {
  std::vector<RankTimes> shown = ranks;
  if (shown.size() <= most) return shown;
  // Whoever waits least for others is waited for.
  std::ranges::stable_sort(shown, {}, [](const RankTimes& rank) {
    return std::pair(-rank.slow.value_or(0), rank.Share(kCommunication));
  });
  shown.resize(most);
  std::ranges::stable_sort(shown, {}, &RankTimes::rank);
  return shown;
}

void SetProgress(const std::vector<RankMetrics>& ranks, const api::TrainingJobStatus& status,
                 JobTop& top) {
  if (const auto variant = FurthestFromItsEnd(ranks)) return SetProgress({*variant}, status, top);
  for (const RankMetrics& rank : ranks) {
    if (rank.total_steps <= 0) continue;  // it has not joined the others
    top.step = std::max(top.step, rank.step);
    top.total_steps = std::max(top.total_steps, rank.total_steps);
    if (!top.loss) top.loss = rank.loss;
    if (!top.remaining_seconds) top.remaining_seconds = rank.remaining_seconds;
    top.examples_per_second = std::max(top.examples_per_second, rank.examples_per_second);
  }
  if (top.total_steps > 0 || !status.progress) return;
  top.step = static_cast<double>(status.progress->step);
  top.total_steps = static_cast<double>(status.progress->total_steps);
  top.loss = status.progress->loss;
  top.remaining_seconds = status.progress->estimated_remaining_seconds;
  top.examples_per_second = status.progress->examples_per_second;
}

std::string TopTable(const std::vector<JobTop>& jobs) {
  TextRow header = {"NAME", "STATE", "STEP", "LOSS", "LEFT", "GOODPUT", "STEP TIME"};
  AddTitles(header);
  header.emplace_back("STRAGGLERS");
  std::vector<TextRow> rows = {std::move(header)};
  std::string unread;
  for (const JobTop& job : jobs) {
    TextRow row = {job.name,
                   job.state,
                   StepsOf(job),
                   LossOf(job),
                   LeftOf(job),
                   Percent(job.times.goodput),
                   Milliseconds(job.times.total.StepSeconds())};
    AddShares(job.times.total, row);
    row.push_back(fmt::format("{}", StragglersOf(job.times)));
    rows.push_back(std::move(row));
    if (!job.unread.empty()) unread += fmt::format("{}: {}", job.name, UnreadText(job.unread));
  }
  return Printable(TextTable(rows) + unread);
}

std::string TopOfJob(const JobTop& job) {
  std::string text = fmt::format("{}: {}", job.name, job.state);
  if (!job.ready.empty()) text += fmt::format(", {} ready", job.ready);
  text += '\n' + ProgressOf(job) + StepTimeOf(job.times.total) + RankTable(job.times) +
          UnreadText(job.unread);
  return Printable(text);
}

nlohmann::ordered_json ToJson(const JobTop& job) {
  Json ranks = Json::array();
  for (const RankTimes& rank : job.times.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"replica", rank.replica},
                     {"step", rank.step},
                     {"step_seconds", OrNull(rank.StepSeconds())},
                     {"phases", PhasesJson(rank)},
                     {"straggles_by", OrNull(rank.slow)}});
  }
  Json unread = Json::array();
  for (const UnreadPod& pod : job.unread) {
    unread.push_back({{"replica", pod.replica}, {"why", std::string(pod.why.message())}});
  }
  const bool has_progress = job.step > 0 || job.total_steps > 0;
  return {{"namespace", OrNull(job.namespace_name)},
          {"job", job.name},
          {"state", job.state},
          {"ready", OrNull(job.ready)},
          {"step", has_progress ? Json(job.step) : Json()},
          {"total_steps", job.total_steps > 0 ? Json(job.total_steps) : Json()},
          {"loss", OrNull(job.loss)},
          {"examples_per_second", has_progress ? Json(job.examples_per_second) : Json()},
          {"remaining_seconds", OrNull(job.remaining_seconds)},
          {"goodput", OrNull(job.times.goodput)},
          {"step_seconds", OrNull(job.times.total.StepSeconds())},
          {"phases", PhasesJson(job.times.total)},
          {"ranks", std::move(ranks)},
          {"unread", std::move(unread)}};
}

}  // namespace lockstep::cli
