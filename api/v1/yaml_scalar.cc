#include "api/v1/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

namespace lockstep::api {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view SkipDigits(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, IsDigit);
  return text.substr(static_cast<std::size_t>(end - text.begin()));
}

// [0-9]+
bool IsDecimal(std::string_view text) {
  return !text.empty() && SkipDigits(text).empty();
}

// ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool IsFloat(std::string_view text) {
  std::string_view rest = SkipDigits(text);
  const bool has_whole = rest.size() < text.size();
  if (rest.starts_with('.')) {
    const std::string_view fraction = SkipDigits(rest.substr(1));
    if (!has_whole && fraction.size() + 1 == rest.size()) return false;
    rest = fraction;
  } else if (!has_whole) {
    return false;
  }
  if (rest.empty()) return true;
  if (rest.front() != 'e' && rest.front() != 'E') return false;
  rest.remove_prefix(1);
  if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
  return IsDecimal(rest);
}

bool IsAnyOf(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, text) != names.end();
}

// Returns nullopt if the number does not fit into 64 bits.
std::optional<Json> ParseInteger(std::string_view digits, int base, bool negative) {
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  if (!negative) return Json(value);
  constexpr auto kMostNegative =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) + 1;
  if (value > kMostNegative) return std::nullopt;
  return Json(static_cast<std::int64_t>(~value + 1));
}

std::optional<Json> Real(std::string_view text, bool negative) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return Json(negative ? -value : value);
}

struct Base {
  std::string_view prefix, digits;
  int base;
};

// As kubectl's reader sees integers. The first that fits counts: 0400 is octal, 08 is decimal.
constexpr Base kBases[] = {
    {"0x", "0123456789abcdefABCDEF", 16},
    {"0X", "0123456789abcdefABCDEF", 16},
    {"0o", "01234567", 8},
    {"0O", "01234567", 8},
    {"0b", "01", 2},
    {"0B", "01", 2},
    {"0", "01234567", 8},
    {"", "0123456789", 10},
};

// Returns true for `prefix` and then one or more of `digits`, as in 0o17 and 0xff.
bool HasPrefixAndDigits(std::string_view text, std::string_view prefix, std::string_view digits) {
  return text.starts_with(prefix) && text.size() > prefix.size() &&
         text.substr(prefix.size()).find_first_not_of(digits) == std::string_view::npos;
}

}  // namespace

std::optional<Json> ResolvePlainScalar(std::string_view text) {
  if (IsAnyOf(text, {"", "~", "null", "Null", "NULL"})) return Json(nullptr);
  if (IsAnyOf(text, {"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})) {
    return Json(true);
  }
  if (IsAnyOf(text, {"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"})) {
    return Json(false);
  }
  if (IsAnyOf(text, {".nan", ".NaN", ".NAN"})) return std::nullopt;

  const bool negative = text.starts_with('-');
  const bool has_sign = negative || text.starts_with('+');
  std::string digits(text);
  if (has_sign || (!text.empty() && IsDigit(text.front()))) std::erase(digits, '_');
  std::string_view magnitude = digits;
  if (has_sign) magnitude.remove_prefix(1);
  if (IsAnyOf(magnitude, {".inf", ".Inf", ".INF"})) return std::nullopt;
  for (const auto& [prefix, possible, base] : kBases) {
    if (HasPrefixAndDigits(magnitude, prefix, possible)) {
      return ParseInteger(magnitude.substr(prefix.size()), base, negative);
    }
  }
  if (IsFloat(magnitude)) return Real(magnitude, negative);
  return Json(std::string(text));
}

}  // namespace lockstep::api
