#include "api/v1/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/v1/suggest.h"
#include "base/rfc3339.h"
#include "base/shorten.h"

namespace lockstep::api {
namespace {

// Returns enough of a wrong value to recognise it.
std::string Found(const Json& json) {
  constexpr std::size_t kLongest = 60;
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  return Shortened(json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace),
                   kLongest, "…");
}

// Mentions the largest int only if the value exceeds it.
std::string Describe(IntegerRange range, bool is_exceeded = false) {
  const bool has_max =
      range.max < kMaxJsonInteger && (is_exceeded || range.max != std::numeric_limits<int>::max());
  if (has_max) return fmt::format("an integer from {} to {}", range.min, range.max);
  const bool has_min = range.min > -kMaxJsonInteger && range.min != std::numeric_limits<int>::min();
  if (has_min) return fmt::format("an integer of at least {}", range.min);
  return "an integer";
}

std::string Describe(RealRange range) {
  std::string text = "a number";
  if (range.min > std::numeric_limits<double>::lowest()) {
    text += fmt::format("{} {}", range.min_excluded ? " above" : " of at least", range.min);
  }
  if (range.max < std::numeric_limits<double>::max()) {
    text += fmt::format(" and {} {}", range.max_excluded ? "below" : "at most", range.max);
  }
  return text;
}

bool Contains(RealRange range, double value) {
  if (!std::isfinite(value)) return false;
  if (value < range.min || (range.min_excluded && value == range.min)) return false;
  return value < range.max || (!range.max_excluded && value == range.max);
}

}  // namespace

FieldReader::FieldReader(const Json& json, std::string path, UnknownFields unknown,
                         std::vector<FieldError>* errors)
    : object_(json.is_object() ? &json : nullptr),
      path_(std::move(path)),
      unknown_(unknown),
      errors_(errors) {
  if (object_ == nullptr) Fault(path_, json, "an object");
}

const Json* FieldReader::Find(std::string_view name) {
  known_.push_back(name);
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(std::string(name));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string FieldReader::Child(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void FieldReader::Fault(std::string path, const Json& found, std::string_view expected) {
  errors_->push_back(
      {std::move(path), fmt::format("found {}, expected {}", Found(found), expected)});
}

void FieldReader::Constant(std::string_view name, std::string_view expected) {
  known_.push_back(name);
  if (object_ == nullptr) return;
  const auto found = object_->find(std::string(name));
  if (found == object_->end()) {
    errors_->push_back({Child(name), fmt::format("found nothing, expected \"{}\"", expected)});
  } else if (*found != Json(std::string(expected))) {
    Fault(Child(name), *found, fmt::format("\"{}\"", expected));
  }
}

void FieldReader::Finish() {
  if (object_ == nullptr || unknown_ != UnknownFields::kRefuse) return;
  for (const auto& [key, value] : object_->items()) {
    if (std::ranges::find(known_, std::string_view(key)) != known_.end()) continue;
    errors_->push_back({Child(key), fmt::format("unknown field; {}", SuggestName(key, known_))});
  }
}

void FieldReader::Read(const Json& json, const std::string& path, bool& value) {
  if (!json.is_boolean()) return Fault(path, json, "true or false");
  value = json.get<bool>();
}

void FieldReader::Read(const Json& json, const std::string& path, std::string& value) {
  if (!json.is_string()) return Fault(path, json, "a string");
  value = json.get<std::string>();
}

void FieldReader::Read(const Json& json, const std::string& path, double& value, RealRange range) {
  if (!json.is_number() || !Contains(range, json.get<double>())) {
    return Fault(path, json, Describe(range));
  }
  value = json.get<double>();
}

void FieldReader::Read(const Json& json, const std::string& path, Time& value) {
  const std::optional<Time> time =
      json.is_string() ? ParseRfc3339(json.get_ref<const std::string&>()) : std::nullopt;
  if (!time) return Fault(path, json, "a time such as \"2026-05-01T12:00:00Z\"");
  value = *time;
}

void FieldReader::Read(const Json& json, const std::string& path, Json& value) {
  if (!json.is_object()) return Fault(path, json, "an object");
  value = json;
}

void FieldReader::Read(const Json& json, const std::string& path, SharedJson& value) {
  if (!json.is_object()) return Fault(path, json, "an object");
  value = Json(json);
}

void FieldReader::Read(const Json& json, const std::string& path, SharedJson& value,
                       ListOfObjects /*bounds*/) {
  if (!json.is_array()) return Fault(path, json, "a list");
  const std::size_t before = errors_->size();
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_object()) Fault(fmt::format("{}[{}]", path, i), json[i], "an object");
  }
  if (errors_->size() == before) value = Json(json);
}

void FieldReader::Read(const Json& json, const std::string& path,
                       std::map<std::string, std::string>& value) {
  if (!json.is_object()) return Fault(path, json, "an object of strings");
  value.clear();
  for (const auto& [key, entry] : json.items()) {
    Read(entry, fmt::format("{}[{}]", path, key), value[key]);
  }
}

std::optional<std::int64_t> FieldReader::ReadInteger(const Json& json, const std::string& path,
                                                     IntegerRange range) {
  // As in Kubernetes, a number with a point or an exponent is not an integer.
  const bool too_large = json.is_number_unsigned() &&
                         json.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxJsonInteger);
  if (json.is_number_integer() && !too_large) {
    const auto value = json.get<std::int64_t>();
    if (value >= range.min && value <= range.max) return value;
    if (unknown_ == UnknownFields::kIgnoreAndClamp) return std::clamp(value, range.min, range.max);
  }
  const bool is_exceeded = json.is_number_integer() && json > Json(range.max);
  Fault(path, json, Describe(range, is_exceeded));
  return std::nullopt;
}

void FieldReader::EnumFault(const std::string& path, const Json& found,
                            const std::vector<std::string_view>& names) {
  Fault(path, found, fmt::format("one of {}", fmt::join(names, ", ")));
}

Json FieldWriter::Write(const Time& value) {
  return FormatRfc3339(value);
}

Json FieldWriter::Write(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

}  // namespace lockstep::api
