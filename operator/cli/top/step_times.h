// What the ranks of a job spend their time on, from two looks at their metrics. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/cli/top/rank_metrics.h"

namespace lockstep::cli {

// Between the two looks.
struct RankTimes {
  int rank = 0;
  std::string replica;
  int stage = 0;               // of the model
  double step = 0;             // at the second look
  double steps = 0;            // that the rank took part in
  double seconds = 0;          // of the rank's life; 0: its metrics did not change, or began again
  PhaseSeconds by_phase{};     // add up to `seconds`
  std::optional<double> slow;  // a straggler: its work for a step takes so much longer than that
                               // of the median rank of its stage: 0.35 is 35 %
  // The fraction of the rank's life that kPhases[phase] took; 0 without a life.
  double Share(std::size_t phase) const { return seconds > 0 ? by_phase[phase] / seconds : 0; }
  // Seconds from one step to the next; nullopt: no step ended.
  std::optional<double> StepSeconds() const;
};

struct StepTimes {
  std::vector<RankTimes> ranks;  // in the order of the second look
  RankTimes total;               // sums over the ranks
  // The time in steps that are kept, per second and per rank of the job's size. nullopt: no rank
  // lived between the looks.
  std::optional<double> goodput;
};

// A rank is a straggler if its work for a step (input, compute, optimizer and checkpoint: what it
// does not wait for others in) takes a fifth longer than that of the median rank with the same
// stage of the model, or of the other of two. Variants that train alone have no stragglers.
StepTimes TimesBetween(const std::vector<RankMetrics>& before,
                       const std::vector<RankMetrics>& after);

}  // namespace lockstep::cli
