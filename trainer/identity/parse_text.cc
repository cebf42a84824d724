#include "trainer/identity/parse_text.h"

#include <fmt/format.h>

#include <charconv>

namespace lockstep::train {

using nlohmann::json;

absl::Status Invalid(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

namespace {

template <typename Integer>
std::optional<Integer> Parse(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int> ParseInt(std::string_view text) {
  return Parse<int>(text);
}

std::optional<std::int64_t> ParseInt64(std::string_view text) {
  return Parse<std::int64_t>(text);
}

absl::StatusOr<json> ParseJson(const std::string& name, const std::string& text) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {  // a number that is too large is not a parse_error
    return Invalid(fmt::format("{} is not JSON: {}", name, error.what()));
  }
}

}  // namespace lockstep::train
