// Builds snapshots whose every value depends on the step, so that mixed-up files show.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/store.h"

namespace lockstep::train {

// A job's only process, until a second one comes.
inline const CheckpointOwner kFirstOwner{
    .job_uid = "uid-a", .attempt = 0, .pod_started = 100, .process_number = 110};
inline const CheckpointOwner kSecondOwner{
    .job_uid = "uid-a", .attempt = 0, .pod_started = 200, .process_number = 210};

inline Snapshot SnapshotOfStep(std::int64_t step) {
  const auto value = static_cast<float>(step);
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.state = {{"seed", 1}, {"ledger", {step, 2, 3}}, {"loss", 0.1 * value}};
  snapshot.model = {{"dense/weight", Shape{2, 3}, std::vector<float>(6, value)},
                    {"dense/bias", Shape{3}, {value, value + 1, value + 2}}};
  snapshot.optimizer = {{"adam/m", Shape{9}, std::vector<float>(9, -value)}};
  snapshot.model_hash = "model-a";
  snapshot.saved = Time(std::chrono::seconds(1'700'000'000 + step));
  return snapshot;
}

inline bool SameSnapshot(const Snapshot& a, const Snapshot& b) {
  return a.step == b.step && a.state == b.state && a.model == b.model &&
         a.optimizer == b.optimizer && a.best == b.best && a.model_hash == b.model_hash &&
         a.saved == b.saved;
}

}  // namespace lockstep::train
