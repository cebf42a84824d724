// What an operator is told once, at its start.
#pragma once

#include <chrono>
#include <string>

#include "api/base/clock.h"

namespace lockstep::controller {

struct Settings {
  std::string trainer_image = "lockstep-trainer:latest";  // of pods that name no image
  int parallel_calls = 8;  // creates and deletes of one reconcile that are under way at a time
  // Progress and replica counts are written at most this often; conditions at once.
  Duration status_interval = std::chrono::seconds(10);
  // Between restarts without progress: the first is immediate, the second waits this long, and so
  // on.
  Duration restart_backoff = std::chrono::seconds(10);
  Duration restart_backoff_limit = std::chrono::minutes(5);
  // What an Evaluator gets to finish the last checkpoint once training is done.
  Duration evaluator_grace = std::chrono::minutes(5);
};

}  // namespace lockstep::controller
