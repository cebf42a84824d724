#include "operator/progress/status_answer.h"

#include <chrono>
#include <cmath>
#include <cstddef>

#include "api/proto/trainer_status.pb.h"
#include "api/v1/enum_names.h"
#include "operator/progress/replica_names.h"

namespace lockstep::progress {
namespace {

constexpr std::size_t kMostStragglers = 8;  // as trainer_status.proto promises

// The status is JSON, which has no NaN.
std::optional<double> IfFinite(bool present, double value) {
  return present && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string DoingOf(const proto::Straggler& straggler) {
  switch (straggler.activity()) {
    case proto::ACTIVITY_SHARING_STATE:
      return "restores its state";
    case proto::ACTIVITY_EVALUATION:
      return "evaluates";
    case proto::ACTIVITY_CHECKPOINT:
      return "writes a checkpoint";
    default:  // a step, or what a newer trainer does
      break;
  }
  if (straggler.step_part() == proto::STEP_PART_INPUT) return "waits for its next batch";
  if (straggler.step_part() == proto::STEP_PART_COMPUTE) return "computes its gradients";
  return "does something else";
}

}  // namespace

bool IsReportOf(const proto::GetStatusResponse& said, const std::string& job_uid) {
  if (said.nonce().size() > kLongestNonce) return false;
  if (!said.job_uid().empty()) return said.job_uid() == job_uid;
  return said.nonce().empty();
}

api::Progress ProgressIn(const proto::TrainerProgress& message) {
  api::Progress progress;
  progress.step = message.step();
  progress.total_steps = message.total_steps();
  progress.epoch = message.epoch();
  progress.loss = IfFinite(message.has_loss(), message.loss());
  progress.accuracy = IfFinite(message.has_accuracy(), message.accuracy());
  // An evaluation whose numbers are not finite takes the place of the one before: see
  // NoteEvaluation.
  if (message.has_test_accuracy()) progress.test_accuracy = message.test_accuracy();
  if (message.has_test_loss()) progress.test_loss = message.test_loss();
  progress.mean_absolute_error =
      IfFinite(message.has_mean_absolute_error(), message.mean_absolute_error());
  if (message.has_test_mean_absolute_error()) {
    progress.test_mean_absolute_error = message.test_mean_absolute_error();
  }
  for (const proto::TestMetric& metric : message.test_metrics()) {
    const auto* known = api::FindByName<api::TestMetric>(metric.name());
    if (known != nullptr && std::isfinite(metric.value())) {
      progress.test_metrics[*known] = metric.value();
    }
  }
  progress.goodput = IfFinite(message.has_goodput(), message.goodput());
  progress.estimated_remaining_seconds =
      IfFinite(message.has_estimated_remaining_seconds(), message.estimated_remaining_seconds());
  progress.examples_per_second = IfFinite(true, message.examples_per_second()).value_or(0);
  progress.last_checkpoint_step = message.last_checkpoint_step();
  if (message.samples_lost() != 0) progress.samples_lost = message.samples_lost();
  if (message.samples_duplicated() != 0) progress.samples_duplicated = message.samples_duplicated();
  constexpr double kYear2200 = 7'258'118'400;  // Time ends in 2262
  if (message.update_time() > 0 && message.update_time() < kYear2200) {
    progress.update_time = Time(std::chrono::duration_cast<Time::duration>(
        std::chrono::duration<double>(message.update_time())));
  }
  return progress;
}

std::vector<controller::Straggler> StragglersIn(const proto::GetStatusResponse& message) {
  std::vector<controller::Straggler> stragglers;
  for (const proto::Straggler& straggler : message.stragglers()) {
    if (stragglers.size() == kMostStragglers) break;
    if (!IsPodName(straggler.replica()) || straggler.rank() < 0) continue;
    stragglers.push_back({straggler.replica(), straggler.rank(), DoingOf(straggler)});
  }
  return stragglers;
}

GroupState GroupIn(const proto::GetStatusResponse& message) {
  GroupState group;
  group.missing = NamesIn(message.missing(), IsProcessName);
  // A newer trainer may report an activity that this program does not know.
  if (proto::Activity_IsValid(message.activity())) {
    group.activity = static_cast<api::Activity>(message.activity());
  }
  if (message.has_evaluator_misses_checkpoints()) {
    group.evaluator_misses_checkpoints = message.evaluator_misses_checkpoints();
  }
  group.keeps_workers = message.keeps_workers();
  return group;
}

}  // namespace lockstep::progress
