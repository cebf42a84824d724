// How a run ended: for people, for programs, and as an exit code. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/v1/training_job.h"

namespace lockstep::cli {

struct RunReport {
  enum class End { kFinished, kInterrupted, kTimedOut };
  End end = End::kFinished;
  api::TrainingJobStatus status;
  double seconds = 0;
  std::string work_dir, logs;
  std::string checkpoint, summaries;  // empty: there is none
};

// 0: Succeeded; 130: interrupted; 124: out of time; else the failing replica's code if it is one
// that a process can end with, or 1.
int ExitCode(const RunReport& report);

// state, steps, loss, accuracy, test_accuracy, images_per_second, checkpoint, restarts, work_dir,
// logs, summaries, seconds, failure. What is not known is null.
nlohmann::ordered_json ToJson(const RunReport& report);

// Several lines, the last one ended.
std::string ToText(const RunReport& report);

}  // namespace lockstep::cli
