#include "api/v1/validate_evaluator.h"

#include "api/v1/defaults.h"

namespace lockstep::api {

void ValidateEvaluator(const TrainingJob& job, std::vector<FieldError>& errors) {
  if (!UsesBundledTrainer(job)) return;
  const TrainingSpec& training = *job.spec.training;
  if (!HasEvaluator(job.spec)) {
    if (training.checkpoint.keep_best) {
      errors.push_back({"spec.training.checkpoint.keepBest",
                        "found without an Evaluator, expected one in spec.replicaSpecs: only an "
                        "Evaluator keeps the best checkpoint"});
    }
    return;
  }
  if (training.checkpoint.directory.empty()) {
    errors.push_back({"spec.training.checkpoint.directory",
                      "found none, expected one with an Evaluator: it evaluates checkpoints"});
  }
  if (training.early_stopping) {
    errors.push_back({"spec.training.earlyStopping",
                      "found with an Evaluator, expected none: beside an Evaluator, the replicas "
                      "that train do not evaluate"});
  }
  if (!training.evaluation.enabled) {
    errors.push_back({"spec.training.evaluation.enabled",
                      "found false, expected true with an Evaluator, which only evaluates"});
  }
}

}  // namespace lockstep::api
