// Helpers for parsing TF_CONFIG and the LOCKSTEP_* variables.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::train {

inline constexpr int kMaxIndex = 100'000;  // of a replica within its role

absl::Status Invalid(const std::string& message);
// Parses the whole text as a decimal integer. Returns nullopt if it is not one.
std::optional<int> ParseInt(std::string_view text);
std::optional<std::int64_t> ParseInt64(std::string_view text);
// InvalidArgument names the variable and the position in its text.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& name, const std::string& text);

}  // namespace lockstep::train
