// Converts `training` and `strategy` to and from the JSON in LOCKSTEP_CONFIG and LOCKSTEP_STRATEGY.
#include "api/v1/training_fields.h"

namespace lockstep::api {

absl::StatusOr<TrainingSpec> TrainingSpecFromJson(const Json& json) {
  return ReadDocument<TrainingSpec>(json, "training");
}

Json TrainingSpecToJson(const TrainingSpec& training) {
  return FieldWriter::WriteStruct(training, Defaults::kOmit);
}

absl::StatusOr<StrategySpec> StrategySpecFromJson(const Json& json) {
  return ReadDocument<StrategySpec>(json, "strategy");
}

Json StrategySpecToJson(const StrategySpec& strategy) {
  return FieldWriter::WriteStruct(strategy, Defaults::kOmit);
}

}  // namespace lockstep::api
