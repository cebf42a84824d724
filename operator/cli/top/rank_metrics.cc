#include "operator/cli/top/rank_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr std::string_view kPrefix = "lockstep_trainer_";
constexpr double kMostReplicas = 1e6;
constexpr double kMostCount = 1e15;  // of steps, seconds and the like

// One line: `name{key="value",…} number`.
struct Sample {
  std::string_view name, labels;
  double value = 0;
};

std::optional<double> NumberOf(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Sample> ParseSample(std::string_view line) {
  if (!line.starts_with(kPrefix)) return std::nullopt;
  line.remove_prefix(kPrefix.size());
  const std::size_t open = line.find('{'), close = line.rfind("} ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  const std::optional<double> value = NumberOf(line.substr(close + 2));
  if (!value) return std::nullopt;
  return Sample{line.substr(0, open), line.substr(open + 1, close - open - 1), *value};
}

// Returns the value of a label; the labels that are asked for have no escaped characters.
std::string_view Label(std::string_view labels, std::string_view key) {
  while (!labels.empty()) {
    const std::size_t equals = labels.find("=\"");
    if (equals == std::string_view::npos) break;
    const std::size_t end = labels.find('"', equals + 2);
    if (end == std::string_view::npos) break;
    if (labels.substr(0, equals) == key) return labels.substr(equals + 2, end - equals - 2);
    labels.remove_prefix(std::min(labels.size(), end + 2));  // with the comma
  }
  return {};
}

void SetCount(double& member, double value) {
  if (value >= 0 && value <= kMostCount) member = value;
}

void SetTime(RankMetrics& rank, const Sample& sample) {
  const std::string_view phase = Label(sample.labels, "phase");
  const auto place = std::ranges::find(kPhases, phase);
  if (place == kPhases.end()) return;
  SetCount(rank.seconds[static_cast<std::size_t>(place - kPhases.begin())], sample.value);
}

void Set(RankMetrics& rank, const Sample& sample) {
  if (sample.name == "time_seconds_total") return SetTime(rank, sample);
  if (sample.name == "step") return SetCount(rank.step, sample.value);
  if (sample.name == "total_steps") return SetCount(rank.total_steps, sample.value);
  if (sample.name == "steps_total") return SetCount(rank.steps_done, sample.value);
  if (sample.name == "examples_per_second") {
    return SetCount(rank.examples_per_second, sample.value);
  }
  if (!std::isfinite(sample.value)) return;  // not known yet
  if (sample.name == "loss") rank.loss = sample.value;
  if (sample.name == "remaining_seconds" && sample.value >= 0) {
    rank.remaining_seconds = std::min(sample.value, kMostCount);
  }
  if (sample.value < 0 || sample.value > kMostReplicas) return;
  if (sample.name == "world_size") rank.world = static_cast<int>(sample.value);
  if (sample.name == "stage") rank.stage = static_cast<int>(sample.value);
}

}  // namespace

std::vector<RankMetrics> ParseRankMetrics(std::string_view text, std::size_t most) {
  std::map<int, RankMetrics> ranks;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::optional<Sample> sample = ParseSample(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    if (!sample) continue;
    const std::string_view label = Label(sample->labels, "rank");
    int number = -1;
    const auto [rest, error] = std::from_chars(label.data(), label.data() + label.size(), number);
    if (error != std::errc() || rest != label.data() + label.size() || number < 0) continue;
    if (ranks.size() == most && !ranks.contains(number)) continue;
    RankMetrics& rank = ranks[number];
    rank.rank = number;
    Set(rank, *sample);
  }
  std::vector<RankMetrics> sorted;
  sorted.reserve(ranks.size());
  for (auto& [number, rank] : ranks) sorted.push_back(std::move(rank));
  return sorted;
}

}  // namespace lockstep::cli
