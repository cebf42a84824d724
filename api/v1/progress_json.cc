#include "api/v1/progress_json.h"

#include "api/v1/status_fields.h"

namespace lockstep::api {

Json ProgressToJson(const Progress& progress) {
  return FieldWriter::WriteStruct(progress);
}

bool IsInRange(const Progress& progress) {
  const auto counts = [](std::int64_t value, std::int64_t least) {
    return value >= least && value <= kMaxJsonInteger;
  };
  return counts(progress.step, 0) && counts(progress.total_steps, 0) &&
         counts(progress.last_checkpoint_step, -1) &&
         counts(progress.samples_lost.value_or(0), 0) &&
         counts(progress.samples_duplicated.value_or(0), 0) && !(progress.epoch < 0) &&
         (!progress.update_time || *progress.update_time >= Time());
}

std::optional<Progress> ProgressFromMessage(const std::string& message) {
  if (!message.starts_with('{')) return std::nullopt;  // most messages are text
  const Json json = Json::parse(message, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step")) return std::nullopt;
  // Ignores unknown fields, since the trainer may be newer than this program.
  std::vector<FieldError> errors;
  Progress progress;
  FieldReader reader(json, "progress", UnknownFields::kIgnore, &errors);
  Fields(reader, progress);
  return errors.empty() && IsInRange(progress) ? std::optional(progress) : std::nullopt;
}

}  // namespace lockstep::api
