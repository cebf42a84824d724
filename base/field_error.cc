#include "base/field_error.h"

#include <fmt/format.h>

namespace lockstep {

absl::Status ToStatus(const std::vector<FieldError>& errors) {
  if (errors.empty()) return absl::OkStatus();
  std::string text;
  for (const FieldError& error : errors) {
    if (!text.empty()) text += '\n';
    text += error.path.empty() ? error.message : fmt::format("{}: {}", error.path, error.message);
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace lockstep
