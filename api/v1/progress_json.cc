#include "api/v1/progress_json.h"

#include "api/v1/status_fields.h"

namespace lockstep::api {

Json ProgressToJson(const Progress& progress) {
  return FieldWriter::WriteStruct(progress);
}

std::optional<Progress> ProgressFromMessage(const std::string& message) {
  if (!message.starts_with('{')) return std::nullopt;  // most messages are text
  const Json json = Json::parse(message, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step")) return std::nullopt;
  // The trainer may be newer than whoever reads this.
  std::vector<FieldError> errors;
  Progress progress;
  FieldReader reader(json, "progress", UnknownFields::kIgnore, &errors);
  Fields(reader, progress);
  return errors.empty() ? std::optional(progress) : std::nullopt;
}

}  // namespace lockstep::api
