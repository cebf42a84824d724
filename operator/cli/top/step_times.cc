#include "operator/cli/top/step_times.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace lockstep::cli {
namespace {

// A straggler's work per step exceeds the median by more than this fraction.
constexpr double kSlow = 0.2;
// Without communication, in which a rank waits for others.
constexpr std::array<ReportedPhase, 4> kWork = {kInput, kCompute, kOptimizer, kCheckpoint};

// The counters of a new pod, or of a new process in it, begin at 0 again. Then `seconds` and
// `steps` stay 0.
RankTimes TimesOf(const RankMetrics* before, const RankMetrics& after) {
  RankTimes times;
  times.rank = after.rank;
  times.replica = after.replica;
  times.stage = after.stage;
  times.step = after.step;
  if (before == nullptr || after.steps_done < before->steps_done) return times;
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    const double seconds = after.seconds[i] - before->seconds[i];
    if (seconds < 0) return times;
    times.by_phase[i] = seconds;
  }
  times.seconds = std::accumulate(times.by_phase.begin(), times.by_phase.end(), 0.0);
  times.steps = after.steps_done - before->steps_done;
  return times;
}

double WorkForAStep(const RankTimes& rank) {
  double work = 0;
  for (const ReportedPhase phase : kWork) work += rank.by_phase[phase];
  return work / rank.steps;
}

// Compares ranks of a stage. If their number is even, the median is the faster of the two in the
// middle: the mean of two ranks would hide that one waits for the other nearly half of its time.
void MarkStragglers(std::vector<RankTimes>& ranks, int stage) {
  std::vector<double> works;
  for (const RankTimes& rank : ranks) {
    if (rank.steps > 0 && rank.stage == stage) works.push_back(WorkForAStep(rank));
  }
  if (works.size() < 2) return;
  std::ranges::sort(works);
  const double median = works[(works.size() - 1) / 2];
  if (median <= 0) return;
  for (RankTimes& rank : ranks) {
    if (rank.steps <= 0 || rank.stage != stage) continue;
    const double more = WorkForAStep(rank) / median - 1;
    if (more > kSlow) rank.slow = more;
  }
}

}  // namespace

std::optional<double> RankTimes::StepSeconds() const {
  if (steps <= 0 || seconds <= 0) return std::nullopt;
  return seconds / steps;
}

StepTimes TimesBetween(const std::vector<RankMetrics>& before,
                       const std::vector<RankMetrics>& after) {
  std::map<std::pair<std::string, int>, const RankMetrics*> old;
  for (const RankMetrics& rank : before) old[{rank.replica, rank.rank}] = &rank;
  StepTimes times;
  std::size_t lived = 0;
  int world = 0;  // ranks that train together
  for (const RankMetrics& rank : after) {
    const auto same = old.find({rank.replica, rank.rank});
    times.ranks.push_back(TimesOf(same == old.end() ? nullptr : same->second, rank));
    world = std::max(world, rank.world);
    const RankTimes& one = times.ranks.back();
    if (one.seconds <= 0) continue;
    ++lived;
    times.total.steps += one.steps;
    times.total.seconds += one.seconds;
    for (std::size_t i = 0; i < kPhases.size(); ++i) times.total.by_phase[i] += one.by_phase[i];
  }
  if (lived > 0) {
    double kept = 0;
    for (std::size_t i = 0; i < kStepPhases; ++i) kept += times.total.Share(i);
    const std::size_t size = std::max(lived, static_cast<std::size_t>(world));
    times.goodput = kept * static_cast<double>(lived) / static_cast<double>(size);
  }
  if (world == 1) return times;  // variants that train alone wait for nobody
  std::set<int> stages;
  for (const RankTimes& rank : times.ranks) stages.insert(rank.stage);
  for (const int stage : stages) MarkStragglers(times.ranks, stage);
  return times;
}

}  // namespace lockstep::cli
