#include "operator/cli/local/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/v1/enum_names.h"
#include "api/v1/test_metrics.h"
#include "base/printable.h"
#include "operator/cli/text/job_table.h"
#include "operator/cli/text/or_null.h"
#include "operator/cli/text/progress_line.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string State(const RunReport& report) {
  if (report.end == RunReport::End::kInterrupted) return "Interrupted";
  if (report.end == RunReport::End::kTimedOut) return "TimedOut";
  return report.status.state;
}

int Restarts(const api::TrainingJobStatus& status) {
  const api::RestartCounts& restarts = status.restarts;
  return std::max(status.restart_count,
                  restarts.application + restarts.disruption + restarts.evaluator);
}

// The Failed condition says why, for failures of no single replica.
std::string FailedMessage(const api::TrainingJobStatus& status) {
  for (const api::Condition& condition : status.conditions) {
    if (condition.type == "Failed" && condition.status == api::ConditionStatus::kTrue) {
      return fmt::format("{}: {}", condition.reason, condition.message);
    }
  }
  return "";
}

// A run that was stopped may have been about to start again what had failed.
bool TellsOfFailure(const RunReport& report) {
  return report.status.state == "Failed" ||
         (report.end != RunReport::End::kFinished && report.status.failure);
}

OrderedJson FailureJson(const RunReport& report) {
  if (!TellsOfFailure(report)) return OrderedJson();
  OrderedJson json = {{"message", FailedMessage(report.status)}};
  if (report.status.failure) {
    const api::Failure& failure = *report.status.failure;
    json["role"] = failure.role;
    json["index"] = failure.index;
    json["exit_code"] = failure.exit_code;
    json["reason"] = failure.reason;
    if (!failure.message.empty()) json["message"] = failure.message;
  }
  return json;
}

// Adds the mean absolute errors, which only losses of regression have, and the metrics that the job
// names. `result`: a Progress or a VariantResult.
void AddMetrics(const auto& result, OrderedJson& json) {
  if (result.mean_absolute_error) json["mean_absolute_error"] = *result.mean_absolute_error;
  if (result.test_mean_absolute_error) {
    json["test_mean_absolute_error"] = *result.test_mean_absolute_error;
  }
  if (!result.test_metrics.empty()) {
    json["test_metrics"] = api::TestMetricsToJson(result.test_metrics);
  }
}

OrderedJson VariantsJson(const std::vector<api::VariantResult>& variants) {
  OrderedJson list = OrderedJson::array();
  for (const api::VariantResult& variant : variants) {
    OrderedJson json;
    json["index"] = variant.index;
    json["name"] = variant.name;
    json["diverged"] = variant.diverged;
    json["steps"] = variant.step;
    json["loss"] = OrNull(variant.loss);
    json["accuracy"] = OrNull(variant.accuracy);
    json["test_accuracy"] = OrNull(variant.test_accuracy);
    json["test_loss"] = OrNull(variant.test_loss);
    AddMetrics(variant, json);
    list.push_back(std::move(json));
  }
  return list;
}

void AddFailure(const RunReport& report, std::string& text) {
  if (!TellsOfFailure(report)) return;
  const std::string why = FailedMessage(report.status);
  if (!why.empty()) text += fmt::format("{}\n", why);
  if (!report.status.failure) return;
  const api::Failure& failure = *report.status.failure;
  if (why.empty()) {
    text += fmt::format("{}{} {} ended with exit code {} ({})\n",
                        report.status.state == "Failed" ? "" : "The last failure: ", failure.role,
                        failure.index, failure.exit_code, failure.reason);
  }
  if (!failure.message.empty() && why.find(failure.message) == std::string::npos) {
    text += failure.message;
    if (text.back() != '\n') text += '\n';
  }
}

}  // namespace

ExitCode ExitCodeOfRun(const RunReport& report) {
  if (report.end == RunReport::End::kInterrupted) return kExitInterrupted;
  if (report.end == RunReport::End::kTimedOut) return kExitTimedOut;
  if (report.status.state == "Succeeded") return kExitDone;
  const int code = report.status.failure ? report.status.failure->exit_code : 0;
  const ExitCode failed{code, kExitReplicaFailed.meaning};
  return IsOneOf(failed, {kExitReplicaFailed}) ? failed : kExitRunFailed;
}

OrderedJson ToJson(const RunReport& report) {
  const api::Progress progress = report.status.progress.value_or(api::Progress());
  const bool trained = report.status.progress.has_value();
  OrderedJson json;
  json["state"] = State(report);
  json["steps"] = trained ? OrderedJson(progress.step) : OrderedJson();
  json["loss"] = OrNull(progress.loss);
  json["accuracy"] = OrNull(progress.accuracy);
  json["test_accuracy"] = OrNull(progress.test_accuracy);
  json["test_loss"] = OrNull(progress.test_loss);
  AddMetrics(progress, json);
  json["images_per_second"] =
      progress.examples_per_second > 0 ? OrderedJson(progress.examples_per_second) : OrderedJson();
  json["checkpoint"] = OrNull(report.checkpoint);
  json["resumed_from"] = OrNull(report.resumed_from);
  json["restarts"] = Restarts(report.status);
  json["work_dir"] = report.work_dir;
  json["logs"] = OrNull(report.logs);
  json["summaries"] = OrNull(report.summaries);
  json["seconds"] = report.seconds;
  json["failure"] = FailureJson(report);
  if (!report.status.variants.empty()) json["variants"] = VariantsJson(report.status.variants);
  return json;
}

std::string ToText(const RunReport& report) {
  const int restarts = Restarts(report.status);
  std::string text = fmt::format("{} after {}", State(report), FormatSeconds(report.seconds));
  if (restarts > 0) text += fmt::format(", {} restart{}", restarts, restarts == 1 ? "" : "s");
  text += '\n';
  AddFailure(report, text);
  if (report.status.progress) {
    const api::Progress& progress = *report.status.progress;
    if (progress.test_accuracy) {
      text += fmt::format("test accuracy  {:.2f} %\n", *progress.test_accuracy * 100);
    }
    if (progress.test_mean_absolute_error) {
      text += fmt::format("test           mean absolute error {:.4g}\n",
                          *progress.test_mean_absolute_error);
    }
    for (const auto& [metric, value] : progress.test_metrics) {
      text += fmt::format("test           {} {:.4g}\n", api::NameOf(metric), value);
    }
    if (progress.loss && progress.mean_absolute_error) {
      text += fmt::format("training       loss {:.4f}, mean absolute error {:.4g} after {} steps\n",
                          *progress.loss, *progress.mean_absolute_error, progress.step);
    }
    if (progress.loss && !progress.accuracy && !progress.mean_absolute_error) {
      text +=
          fmt::format("training       loss {:.4f} after {} steps\n", *progress.loss, progress.step);
    }
    if (progress.loss && progress.accuracy) {
      text += fmt::format("training       loss {:.4f}, accuracy {:.2f} % after {} steps\n",
                          *progress.loss, *progress.accuracy * 100, progress.step);
    }
  }
  text += VariantTable(report.status.variants);
  if (!report.checkpoint.empty()) text += fmt::format("checkpoint     {}\n", report.checkpoint);
  if (!report.logs.empty()) text += fmt::format("logs           {}\n", report.logs);
  if (!report.summaries.empty()) {
    text += fmt::format("TensorBoard    tensorboard --logdir {}\n", report.summaries);
  }
  return Printable(text);
}

}  // namespace lockstep::cli
