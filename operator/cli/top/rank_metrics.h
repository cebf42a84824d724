// What the metrics of a pod of the bundled trainer say of its ranks. docs/metrics.md defines them.
// Pure.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// The phases of lockstep_trainer_time_seconds_total.
inline constexpr std::array<const char*, 9> kPhases = {"input",      "compute",    "communication",
                                                       "optimizer",  "checkpoint", "evaluation",
                                                       "rendezvous", "rework",     "idle"};
// Their places in kPhases. The first four are the phases of a step.
enum ReportedPhase : std::size_t {
  kInput,
  kCompute,
  kCommunication,
  kOptimizer,
  kCheckpoint,
  kEvaluation,
  kRendezvous,
  kRework,
  kIdle
};
inline constexpr std::size_t kStepPhases = kOptimizer + 1;
static_assert(kPhases.size() == kIdle + 1);

using PhaseSeconds = std::array<double, kPhases.size()>;  // in the order of kPhases

struct RankMetrics {
  int rank = 0;
  std::string replica;  // "worker-1"; not part of the metrics
  int world = 0;        // processes that train together; 0: not known yet
  int stage = 0;        // of the model (strategy.stages); 0: the first, or the whole model
  double step = 0, total_steps = 0;
  double steps_done = 0;  // that this rank has taken part in
  PhaseSeconds seconds{};
  std::optional<double> loss, remaining_seconds;  // nullopt: not known yet
  double examples_per_second = 0;
};

// Returns the ranks in `text`, a pod's metrics in Prometheus' text format, sorted by rank. The
// owner of the pod decides what it serves: lines that are not understood are skipped, as are ranks
// after the first `most` of the text.
std::vector<RankMetrics> ParseRankMetrics(std::string_view text, std::size_t most);

}  // namespace lockstep::cli
