#include "operator/cli/local/local_reports.h"

#include <fmt/format.h>

#include "base/status.h"

namespace lockstep::cli {

LocalReports::LocalReports(const Clock& clock)
    : endpoint_(
          reports_, clock,
          {.knows_jobs =
               [this](const auto& space) {
                 return is_connected_ && operator_->tokens.IsLoaded() &&
                        (outlasts_ || operator_->controller.IsOpen(space));
               },
           .find = [this](const auto& space, const auto& name) { return Find({space, name}); },
           .on_report =
               [this](const auto& space, const auto& name, bool at_once) {
                 operator_->controller.Look({space, name}, at_once);
               }}) {}

absl::StatusOr<std::unique_ptr<LocalReports>> LocalReports::Open(const Clock& clock) {
  std::unique_ptr<LocalReports> reports(new LocalReports(clock));
  LOCKSTEP_ASSIGN_OR_RETURN(reports->server_,
                            HttpServer::Start("127.0.0.1:0", {}, reports->endpoint_.Intake()));
  reports->url_ = fmt::format("http://127.0.0.1:{}", reports->server_->port());
  return reports;
}

void LocalReports::Connect(controller::JobController& controller,
                           const controller::JobTokens& tokens) {
  operator_.emplace(Operator{controller, tokens});
  is_connected_ = true;
}

void LocalReports::Close() {
  server_.reset();
}

std::optional<progress::ReportingJob> LocalReports::Find(const kube::Key& key) const {
  const auto found = operator_->controller.jobs().Get(key);
  if (found == nullptr) return std::nullopt;
  const api::TrainingJob& job = found->value.job;
  return progress::ReportingJobOf(job, operator_->tokens.For(job.metadata.uid));
}

}  // namespace lockstep::cli
