// Where programs of a job on this machine report how far they are.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/http_server.h"
#include "operator/controller/job_controller.h"
#include "operator/progress/report_endpoint.h"

namespace lockstep::cli {

// Thread-safe.
class LocalReports {
 public:
  // Listens on the loopback interface, at a port that is free. Until Connect is called it answers
  // 503, after which programs try again. Returns Unavailable if it cannot listen. `clock` must
  // outlive it.
  static absl::StatusOr<std::unique_ptr<LocalReports>> Open(const Clock& clock);

  const std::string& url() const { return url_; }  // Settings::progress_url
  controller::ProgressReports& reports() { return reports_; }
  // From now on what comes is told to `controller`. Both must remain until Close, after which
  // nothing is.
  void Connect(controller::JobController& controller, const controller::JobTokens& tokens);
  // From now on accepts reports even if `controller` stops or has stopped: a program that is told
  // to end reports what it has saved, and would otherwise spend its grace period on tries.
  void OutlastController() { outlasts_ = true; }
  void Close();

 private:
  struct Operator {
    controller::JobController& controller;
    const controller::JobTokens& tokens;
  };

  explicit LocalReports(const Clock& clock);
  std::optional<progress::ReportingJob> Find(const kube::Key& key) const;

  controller::ProgressReports reports_;
  std::optional<Operator> operator_;
  std::atomic<bool> is_connected_{false};  // operator_ is set, and no longer written
  std::atomic<bool> outlasts_{false};
  const progress::ReportEndpoint endpoint_;
  std::string url_;
  std::unique_ptr<HttpServer> server_;  // after what it uses
};

}  // namespace lockstep::cli
