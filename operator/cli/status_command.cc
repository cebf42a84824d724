#include "operator/cli/status_command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "operator/cli/job_table.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/rules/status.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::cli {
namespace {

using Jobs = std::vector<api::TrainingJob>;

constexpr int kDefaultColumns = 80;

int Columns(std::FILE* out) {
  winsize size{};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kDefaultColumns;
}

// An invalid job is still shown, as the operator reports it.
api::TrainingJob ReadJob(const kube::Object& object) {
  return controller::ObserveJob(object).job;
}

absl::StatusOr<Jobs> ReadJobs(kube::Client& client, const StatusOptions& options) {
  Jobs jobs;
  if (!options.job.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const kube::Object object,
        client.Get(controller::kTrainingJobKind, {options.namespace_name, options.job}));
    jobs.push_back(ReadJob(object));
    return jobs;
  }
  kube::ListOptions list;
  list.namespace_name = options.namespace_name;
  do {
    LOCKSTEP_ASSIGN_OR_RETURN(const kube::Page page,
                              client.List(controller::kTrainingJobKind, list));
    for (const kube::Object& object : page.items) jobs.push_back(ReadJob(object));
    list.continue_token = page.continue_token;
    if (page.next_limit > 0) list.limit = page.next_limit;
  } while (!list.continue_token.empty());
  std::ranges::sort(jobs, {}, [](const api::TrainingJob& job) {
    return std::tuple(job.metadata.namespace_name, job.metadata.name);
  });
  return jobs;
}

std::string Render(const Jobs& jobs, const StatusOptions& options, Time now, std::FILE* out) {
  if (jobs.empty()) {
    return options.namespace_name.empty()
               ? "No TrainingJobs.\n"
               : fmt::format("No TrainingJobs in namespace {}.\n", options.namespace_name);
  }
  const bool terminal = isatty(fileno(out)) != 0;
  std::string text = JobTable(jobs, now,
                              {.namespaces = options.namespace_name.empty(),
                               .bars = terminal,
                               .width = terminal ? Columns(out) : 0});
  if (!options.job.empty()) text += JobDetails(jobs.front());
  return text;
}

absl::Status NoneFailed(const Jobs& jobs) {
  for (const api::TrainingJob& job : jobs) {
    if (!controller::IsTrue(job.status, controller::kFailed)) continue;
    return absl::AbortedError(
        fmt::format("job {} failed: {}", job.metadata.name,
                    controller::FindCondition(job.status, controller::kFailed)->reason));
  }
  return absl::OkStatus();
}

// Draws each text over the previous one on a terminal, below it elsewhere.
class Screen {
 public:
  explicit Screen(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) != 0) {}

  void Show(const std::string& text) {
    if (text == shown_) return;
    if (terminal_ && !shown_.empty()) {
      fmt::print(out_, "\033[{}A\033[J", std::ranges::count(shown_, '\n'));
    }
    std::fputs(text.c_str(), out_);
    std::fflush(out_);
    shown_ = text;
  }

 private:
  std::FILE* const out_;
  const bool terminal_;
  std::string shown_;
};

}  // namespace

absl::Status ShowStatus(kube::Client& client, const StatusOptions& options, const Clock& clock,
                        std::FILE* out, const std::function<bool()>& wait) {
  Screen screen(out);
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Jobs jobs, ReadJobs(client, options));
    screen.Show(Render(jobs, options, clock.Now(), out));
    const bool over = std::ranges::all_of(
        jobs, [](const api::TrainingJob& job) { return controller::IsTerminal(job.status); });
    if (options.watch && over) return NoneFailed(jobs);
    if (!options.watch || !wait()) return absl::OkStatus();
  }
}

}  // namespace lockstep::cli
