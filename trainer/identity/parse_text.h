// What reading TF_CONFIG and the LOCKSTEP_* variables has in common.
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
// The whole text as a decimal integer; absent if it is not one.
std::optional<int> ParseInt(std::string_view text);
std::optional<std::int64_t> ParseInt64(std::string_view text);
// InvalidArgument names the variable and the place in its text.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& name, const std::string& text);

}  // namespace lockstep::train
