// What the coordinator tells of the job, and what the Evaluator reports to it.
#include <limits>

#include "trainer/rendezvous/coordinator.h"

namespace lockstep::train {

void Coordinator::Describe(const std::string& peer, const proto::GetStatusRequest& request,
                           proto::GetStatusResponse& response) {
  const std::lock_guard lock(mutex_);
  callers_.Answer(request, response, [&] {
    proven_(peer);
    if (callers_.TakesWorkers(request)) {
      Deliver(roster_.Resize(request.workers(), clock_.SteadyNow()));
    }
    Tell(response);
  });
}

void Coordinator::Tell(proto::GetStatusResponse& response) const {
  response.set_job(job_);
  response.set_job_uid(job_uid_);
  response.set_generation(roster_.generation());
  response.set_workers(roster_.workers());
  for (const std::string& slot : roster_.Missing()) response.add_missing(slot);
  for (const std::string& pod : roster_.LostPods()) response.add_missing_members(pod);
  for (const proto::Straggler& straggler : roster_.Stragglers()) {
    *response.add_stragglers() = straggler;
  }
  response.set_straggler_count(roster_.StragglerCount());
  if (roster_.progress()) *response.mutable_progress() = *roster_.progress();
  response.set_activity(roster_.activity());
  response.set_keeps_workers(roster_.keeps_workers());
  if (evaluator_misses_checkpoints_) {
    response.set_evaluator_misses_checkpoints(*evaluator_misses_checkpoints_);
  }
  if (!evaluation_ || !response.has_progress()) return;
  proto::TrainerProgress& progress = *response.mutable_progress();
  if (evaluation_->has_test_loss()) progress.set_test_loss(evaluation_->test_loss());
  if (evaluation_->has_test_accuracy()) progress.set_test_accuracy(evaluation_->test_accuracy());
  if (evaluation_->has_test_mean_absolute_error()) {
    progress.set_test_mean_absolute_error(evaluation_->test_mean_absolute_error());
  }
  *progress.mutable_test_metrics() = evaluation_->test_metrics();
}

std::size_t Coordinator::size() const {
  const std::lock_guard lock(mutex_);
  return roster_.size();
}

void Coordinator::TakeEvaluation(const std::string& peer, const proto::EvaluationReport& report,
                                 proto::EvaluationAnswer& answer) {
  const std::lock_guard lock(mutex_);
  answer.set_nonce(callers_.StatusNonce());
  if (!callers_.AcceptsEvaluation(report)) {
    if (report.proof().empty()) callers_.Sign(report, answer);
    return;
  }
  proven_(peer);
  // Another job's pod may have had this address before.
  if (report.job() != job_ || report.job_uid() != job_uid_) return;
  answer.set_accepted(true);
  if (roster_.progress()) {
    answer.set_last_checkpoint_step(roster_.progress()->last_checkpoint_step());
  }
  callers_.Sign(report, answer);
  evaluator_misses_checkpoints_ = report.misses_checkpoints();
  const bool is_another_set =
      evaluation_ ? evaluation_->test_set() != report.test_set() : report.voids_earlier();
  if (!is_another_set && report.step() < (evaluation_ ? evaluation_->step() : 0)) return;
  evaluation_ = report;
  if (report.step() < 0) evaluation_->set_test_loss(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace lockstep::train
