#include "operator/progress/report_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "api/v1/conditions.h"
#include "base/hmac.h"
#include "base/printable.h"
#include "base/shorten.h"
#include "operator/progress/report_json.h"

namespace lockstep::progress {
namespace {

constexpr std::size_t kLongestFault = 500;  // bytes
constexpr std::string_view kScheme = "Bearer ";
// The parts of a ReportPath, between its slashes.
constexpr std::size_t kNamespacePart = 5, kNamePart = 7, kAttemptPart = 9, kParts = 11;

struct Reporter {
  std::string namespace_name, name;
  int attempt = 0;
};

std::optional<Reporter> ReporterIn(const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  if (parts.size() != kParts) return std::nullopt;
  Reporter reporter{parts[kNamespacePart], parts[kNamePart]};
  if (!absl::SimpleAtoi(parts[kAttemptPart], &reporter.attempt)) return std::nullopt;
  // What else may be wrong with the path, this comparison tells.
  const std::string expected =
      controller::ReportPath(reporter.namespace_name, reporter.name, reporter.attempt);
  return expected == path ? std::optional(reporter) : std::nullopt;
}

HttpAnswer Refusal(int status, std::string why) {
  return {.status = status, .body = std::move(why) + "\n"};
}

bool IsBearer(const api::JobToken& token, std::string_view authorization) {
  if (!token.present() || !authorization.starts_with(kScheme)) return false;
  authorization.remove_prefix(kScheme.size());
  return EqualInConstantTime(token.ReportBearer(), authorization);
}

}  // namespace

std::optional<ReportingJob> ReportingJobOf(const api::TrainingJob& job,
                                           const api::JobToken& token) {
  if (job.spec.training || api::IsTerminal(job.status)) return std::nullopt;
  return ReportingJob{job.metadata.uid, job.status.attempt, token, job.status.progress};
}

HttpIntake ReportEndpoint::Intake() const {
  return {.prefix = controller::kReportPrefix,
          .most_bytes = kMostBytes,
          .take = [this](const HttpPost& post) { return Take(post); },
          .on_loss = [this] { reports_.NoteLoss(clock_.SteadyNow()); }};
}

HttpAnswer ReportEndpoint::Take(const HttpPost& post) const {
  const std::optional<Reporter> named = ReporterIn(post.path);
  if (!named) return Refusal(404, "found no path of the status of a job's attempt");
  if (!options_.knows_jobs(named->namespace_name)) {
    return Refusal(503,
                   "this operator does not lead, stops, or does not know its key or the jobs yet");
  }
  const std::optional<ReportingJob> job = options_.find(named->namespace_name, named->name);
  if (!job || !IsBearer(job->token, post.authorization)) {
    return Refusal(401, "found no job of the name that has this token and may report");
  }
  if (named->attempt != job->attempt) return {.body = "not of the job's present attempt\n"};
  const SteadyTime now = clock_.SteadyNow();
  if (!reports_.MayReport(job->uid, now)) {
    return Refusal(429, fmt::format("found more than {} reports at once, expected one per second",
                                    controller::ProgressReports::kBurst));
  }
  const absl::StatusOr<controller::ProgressReport> report = ReadReport(post.body);
  if (!report.ok()) {
    return Refusal(400,
                   Printable(Shortened(std::string(report.status().message()), kLongestFault)));
  }
  const bool is_done_now =
      reports_.Take(job->uid, job->attempt, *report, job->progress, clock_.Now(), now);
  options_.on_report(named->namespace_name, named->name, is_done_now);
  return {.body = "taken\n"};
}

}  // namespace lockstep::progress
