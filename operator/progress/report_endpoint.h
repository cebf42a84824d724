// Takes the reports that programs of users' own images post.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "api/v1/job_token.h"
#include "base/clock.h"
#include "base/http_server.h"
#include "operator/controller/state/progress_reports.h"

namespace lockstep::progress {

struct ReportingJob {
  std::string uid;
  int attempt = 0;
  api::JobToken token;
  std::optional<api::Progress> progress;  // of its status
};

// Returns the job as it may report now; nullopt if it has ended, or is not trained by a program of
// the user's own.
std::optional<ReportingJob> ReportingJobOf(const api::TrainingJob& job, const api::JobToken& token);

struct ReportEndpointOptions {
  // Returns true if this operator leads, knows its key and the namespace's jobs, and is not
  // stopping. Without that `find` is not called. Must not block.
  std::function<bool(const std::string& namespace_name)> knows_jobs;
  // Returns the job of the name, with its token, if it may report now. Must not block.
  std::function<std::optional<ReportingJob>(const std::string& namespace_name,
                                            const std::string& name)>
      find;
  // Called after each report that was taken, so that the job is looked at: at once if the program
  // has done all of its work by it. Must not block.
  std::function<void(const std::string& namespace_name, const std::string& name, bool at_once)>
      on_report;
};

// Answers 200 to a report that it has taken, or that is of another attempt than the job's present
// one and so tells nothing: its program is being ended; 400 to one that it cannot read; 401 if
// there is no such job or the bearer is not that of its token (JobToken::ReportBearer), so that
// nobody learns which jobs there are; 404 at another path; 429 if the job has reported too often;
// 503 to whatever is sent if this operator cannot tell. Parses no body before it has checked the
// bearer, and logs nothing that it was sent. Thread-safe.
class ReportEndpoint {
 public:
  static constexpr std::size_t kMostBytes = 16 * 1024;  // of a report

  // `reports` and `clock` must outlive it.
  ReportEndpoint(controller::ProgressReports& reports, const Clock& clock,
                 ReportEndpointOptions options)
      : reports_(reports), clock_(clock), options_(std::move(options)) {}

  // Serves this endpoint, which must outlive the server.
  HttpIntake Intake() const;
  HttpAnswer Take(const HttpPost& post) const;

 private:
  controller::ProgressReports& reports_;
  const Clock& clock_;
  const ReportEndpointOptions options_;
};

}  // namespace lockstep::progress
