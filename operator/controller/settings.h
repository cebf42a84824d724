// What an operator is told once, at its start.
#pragma once

#include <chrono>
#include <string>

#include "api/base/clock.h"

namespace lockstep::controller {

struct Settings {
  std::string trainer_image = "lockstep-trainer:latest";  // of pods that name no image
  // --gang-scheduler-name: "", "volcano", "scheduler-plugins" or the name its scheduler runs under.
  std::string gang_scheduler_name;
  // Jobs with a kueue.x-k8s.io/queue-name label wait for Kueue's admission.
  bool kueue = false;
  int parallel_calls = 8;  // creates and deletes of one reconcile that are under way at a time
  // Progress and replica counts are written at most this often; conditions at once.
  Duration status_interval = std::chrono::seconds(10);
  // Of all jobs together so many statuses that can wait are written a second (0: no limit), and so
  // many at once after a rest. While a write takes longer than its share, one at a time, but not
  // fewer than ten a second.
  double status_rate = 50;
  int status_burst = 50;
  // Between restarts without progress: the first is immediate, the second waits this long, and so
  // on.
  Duration restart_backoff = std::chrono::seconds(10);
  Duration restart_backoff_limit = std::chrono::minutes(5);
  // A pod whose node has been silent this long is lost, though the program in it may still run.
  Duration node_lost_after = std::chrono::minutes(2);
  // A pod that is still there this long after its grace period has no kubelet to confirm its end;
  // it is deleted by force.
  Duration stuck_deletion = std::chrono::minutes(1);
  // What an Evaluator gets to finish the last checkpoint once training is done.
  Duration evaluator_grace = std::chrono::minutes(5);
};

}  // namespace lockstep::controller
