#include "operator/cli/local/wait_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "operator/cli/text/progress_line.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kNamed = 4;  // replicas named of a longer list

// "worker 0", "worker 0 and worker 1", "chief 0, worker 0, worker 1, worker 2 and 60 more".
std::string Enumerated(const std::vector<std::string>& names) {
  std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed)));
  if (names.size() > kNamed) shown.push_back(fmt::format("{} more", names.size() - kNamed));
  std::string text = shown.front();
  for (std::size_t i = 1; i < shown.size(); ++i) {
    text += (i + 1 == shown.size() ? " and " : ", ") + shown[i];
  }
  return text;
}

// Coarse, so that a long wait does not fill the log where lines are not redrawn.
std::string Shown(Duration quiet) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(quiet).count();
  return FormatSeconds(static_cast<double>(seconds - seconds % (seconds < 60 ? 5 : 60)));
}

std::string Activity(const RunView& view, const std::string& time) {
  const std::int64_t step = view.progress ? view.progress->step : 0;
  switch (view.activity) {
    case api::Activity::kSharingState:
      return fmt::format("restoring or sharing the parameters for {}", time);
    case api::Activity::kStep:
      return fmt::format("step {} under way for {}", step + 1, time);
    case api::Activity::kEvaluation:
      return fmt::format("evaluating for {}", time);
    case api::Activity::kCheckpoint:
      return fmt::format("writing a checkpoint for {}", time);
    case api::Activity::kUnknown:
      break;
  }
  return fmt::format("waiting {} for the trainer to report what it is doing", time);
}

std::string Reason(const RunView& view, const std::string& time) {
  if (view.state == "Restarting") {
    return fmt::format("waiting {} for the job's next attempt", time);
  }
  if (!view.waits.empty()) return fmt::format("waiting {}: {}", time, view.waits);
  if (view.active < view.desired) {
    return fmt::format("waiting {} for {} of {} replicas to start", time,
                       view.desired - view.active, view.desired);
  }
  if (!view.answers) return fmt::format("waiting {} for the leading replica to answer", time);
  if (!view.missing.empty()) {
    return fmt::format("waiting {} for {} to {}", time, Enumerated(view.missing),
                       view.progress ? "join again" : "load the data and join");
  }
  return Activity(view, time);
}

}  // namespace

std::string WaitLine(const RunView& view) {
  if (view.quiet < kPatience) return "";
  const std::string reason = Reason(view, Shown(view.quiet));
  if (!view.progress) return reason;
  return fmt::format("step {}/{}  {}", view.progress->step, view.progress->total_steps, reason);
}

}  // namespace lockstep::cli
