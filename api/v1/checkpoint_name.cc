#include "api/v1/checkpoint_name.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace lockstep::api {
namespace {

constexpr std::string_view kPrefix = "step-";

}  // namespace

std::string CheckpointName::ToString() const {
  return copy == 0 ? fmt::format("{}{:08}", kPrefix, step)
                   : fmt::format("{}{:08}.{}", kPrefix, step, copy);
}

std::optional<CheckpointName> CheckpointName::Parse(std::string_view name) {
  CheckpointName parsed;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, parsed.step);
  if (error == std::errc() && rest != end && *rest == '.') {
    const auto copy = std::from_chars(rest + 1, end, parsed.copy);
    rest = copy.ptr;
    error = copy.ec;
  }
  if (error != std::errc() || rest != end || parsed.ToString() != name) return std::nullopt;
  return parsed;
}

}  // namespace lockstep::api
