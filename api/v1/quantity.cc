#include "api/v1/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "base/json_text.h"

namespace lockstep::api {

absl::StatusOr<double> ParseQuantity(const Json& quantity) {
  static const auto* const kFactors = new std::map<std::string, double>{
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},   {"k", 1e3},     {"M", 1e6},
      {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
  if (quantity.is_number()) return quantity.get<double>();
  if (quantity.is_string()) {
    std::string_view text = quantity.get_ref<const std::string&>();
    // As in Kubernetes; from_chars takes no plus.
    if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto factor = kFactors->find(std::string(end, text.data() + text.size()));
    if (error == std::errc() && std::isfinite(number) && factor != kFactors->end()) {
      return number * factor->second;
    }
  }
  return absl::InvalidArgumentError(fmt::format(
      "found {}, expected a quantity like \"2\", \"500m\" or \"4Gi\"", JsonText(quantity)));
}

std::string FormatQuantity(double value) {
  // The rounding errors of sums of decimal fractions are below this.
  const double milli = std::max(0.0, std::ceil(value * 1000 - 1e-6));
  if (std::fmod(milli, 1000) == 0) return fmt::format("{:.0f}", milli / 1000);
  return fmt::format("{:.0f}m", milli);
}

}  // namespace lockstep::api
