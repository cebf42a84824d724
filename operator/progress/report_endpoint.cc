#include "operator/progress/report_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/hmac.h"
#include "base/printable.h"
#include "base/shorten.h"
#include "operator/progress/report_json.h"

namespace lockstep::progress {
namespace {

constexpr std::size_t kLongestFault = 500;  // bytes
constexpr std::string_view kScheme = "Bearer ";

struct JobName {
  std::string namespace_name, name;
};

std::optional<JobName> JobIn(const std::string& path) {
  constexpr std::string_view kJobs = "/trainingjobs/";
  if (!path.starts_with(controller::kReportPrefix)) return std::nullopt;
  const std::string rest = path.substr(std::string_view(controller::kReportPrefix).size());
  const std::size_t first = rest.find('/'), last = rest.rfind('/');
  if (first == std::string::npos || last < first + kJobs.size()) return std::nullopt;
  JobName job{rest.substr(0, first),
              rest.substr(first + kJobs.size(), last - first - kJobs.size())};
  // What else may be wrong with the path, this comparison tells.
  if (controller::ReportPath(job.namespace_name, job.name) != path) return std::nullopt;
  return job;
}

HttpAnswer Refusal(int status, std::string why) {
  return {.status = status, .body = std::move(why) + "\n"};
}

bool IsBearer(const api::JobToken& token, std::string_view authorization) {
  if (!authorization.starts_with(kScheme)) return false;
  authorization.remove_prefix(kScheme.size());
  return EqualInConstantTime(token.ReportBearer(), authorization);
}

}  // namespace

HttpIntake ReportEndpoint::Intake() const {
  return {.prefix = controller::kReportPrefix,
          .most_bytes = kMostBytes,
          .take = [this](const HttpPost& post) { return Take(post); }};
}

HttpAnswer ReportEndpoint::Take(const HttpPost& post) const {
  const std::optional<JobName> named = JobIn(post.path);
  if (!named) return Refusal(404, "found no path of a job's status");
  const std::optional<ReportingJob> job = options_.find(named->namespace_name, named->name);
  if (job && !job->token.present())
    return Refusal(503, "this operator does not lead, or does not know its key yet");
  if (!job || !IsBearer(job->token, post.authorization)) {
    return Refusal(401, "found no job of the name that has this token and may report");
  }
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
  reports_.Take(job->uid, *report, clock_.Now(), now);
  options_.on_report(named->namespace_name, named->name);
  return {.body = "taken\n"};
}

}  // namespace lockstep::progress
