#include "operator/controller/state/progress_reports.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hmac.h"
#include "operator/controller/state/times.h"

namespace lockstep::controller {
namespace {

constexpr std::int64_t kWholePercentage = 100;

template <typename T>
void TakeIfSaid(const std::optional<T>& said, std::optional<T>& known) {
  if (said) known = said;
}

void MergeSteps(const ProgressReport& report, api::Progress& progress) {
  const bool is_done = report.percentage == kWholePercentage;
  std::int64_t total = report.total_steps.value_or(progress.total_steps);
  if (report.step && !report.total_steps) {
    // A total that a percentage has stood for, or that was of other work.
    const bool is_contradicted =
        *report.step > total || (report.percentage && !is_done && *report.step == total);
    if (is_contradicted) total = 0;
  }
  if (report.step) progress.step = *report.step;
  if (report.percentage && !report.step) {
    if (total == 0) total = kWholePercentage;
    // Not step x 100: a total may be close to what an integer holds.
    progress.step = static_cast<std::int64_t>(static_cast<double>(total) * *report.percentage /
                                              kWholePercentage);
  }
  // All of its work, however it counts its steps: a later process reads so in the status.
  if (is_done && total == 0) total = std::max<std::int64_t>(progress.step, 1);
  if (is_done) progress.step = total;
  progress.total_steps = total;
}

}  // namespace

bool ProgramReportsDone(const api::Progress& progress) {
  return progress.total_steps > 0 && progress.step >= progress.total_steps;
}

std::string ReportPath(const std::string& namespace_name, const std::string& job, int attempt) {
  return fmt::format("{}{}/trainingjobs/{}/attempts/{}/status", kReportPrefix, namespace_name, job,
                     attempt);
}

std::string ChannelOf(const std::string& progress_url, const api::JobToken& token) {
  constexpr std::size_t kEnough = 16;  // 64 bits
  return ToHex(HmacSha256(token.ReportBearer(), progress_url)).substr(0, kEnough);
}

api::Progress Merged(const ProgressReport& report, const std::optional<api::Progress>& before,
                     Time now) {
  api::Progress progress = before.value_or(api::Progress());
  MergeSteps(report, progress);
  progress.epoch = report.epoch.value_or(progress.epoch);
  progress.examples_per_second = report.examples_per_second.value_or(progress.examples_per_second);
  TakeIfSaid(report.loss, progress.loss);
  TakeIfSaid(report.accuracy, progress.accuracy);
  TakeIfSaid(report.test_loss, progress.test_loss);
  TakeIfSaid(report.test_accuracy, progress.test_accuracy);
  progress.estimated_remaining_seconds = report.remaining_seconds;  // an old one is wrong by now
  progress.update_time = WholeSeconds(now);
  return progress;
}

bool ProgressReports::MayReport(const std::string& job_uid, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  Job& job = jobs_[job_uid];
  job.due = std::max(job.due, now - kBurst * kInterval);
  if (job.due + kInterval > now) {
    job.changed_at = now;  // it may have said something else
    return false;
  }
  job.due += kInterval;
  return true;
}

bool ProgressReports::Take(const std::string& job_uid, int attempt, const ProgressReport& report,
                           const std::optional<api::Progress>& before, Time now,
                           SteadyTime steady) {
  const std::lock_guard lock(mutex_);
  Job& job = jobs_[job_uid];
  const std::optional<api::Progress>& known = job.latest ? job.latest : before;
  const bool was_done = known && ProgramReportsDone(*known);
  job.latest = Merged(report, known, now);
  job.is_done = ProgramReportsDone(*job.latest);
  if (job.attempt != attempt || job.digest != report.digest) {
    job.attempt = attempt;
    job.digest = report.digest;
    job.changed_at = steady;
  }
  return job.is_done && !was_done;
}

ProgressReports::Known ProgressReports::Of(const std::string& job_uid, const Run& run) {
  const std::lock_guard lock(mutex_);
  Job& job = jobs_[job_uid];
  if (!job.run || job.run->attempt != run.attempt) {
    job.began_again = false;
  } else if (!run.pod_uid.empty() && *job.run != run) {
    job.began_again = true;
    job.digest.reset();
  }
  if (!run.pod_uid.empty()) job.run = run;
  Known known{.latest = job.latest,
              .began_again = job.began_again,
              .last_loss = last_loss_,
              .is_cut_off = is_ready_ == false};
  const bool is_awaited = job.attempt == run.attempt && job.digest && !job.is_done;
  if (is_awaited) known.same_since = job.changed_at;
  return known;
}

void ProgressReports::NoteLoss(SteadyTime now) {
  const std::lock_guard lock(mutex_);
  last_loss_ = now;
}

void ProgressReports::NoteReadiness(bool is_ready, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  if (is_ready && is_ready_ != true) last_loss_ = now;
  is_ready_ = is_ready;
}

void ProgressReports::Forget(const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(job_uid);
}

}  // namespace lockstep::controller
