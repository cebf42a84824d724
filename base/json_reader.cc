#include "base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_text.h"
#include "base/suggest.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// Returns enough of a wrong value to recognise it.
std::string Found(const Json* json) {
  constexpr std::size_t kLongest = 60;
  if (json == nullptr) return "nothing";
  if (json->is_object()) return "an object";
  if (json->is_array()) return "a list";
  return JsonText(*json, kLongest);
}

// Mentions the largest int only if the value exceeds it.
std::string Describe(IntegerRange range, bool is_exceeded) {
  const bool has_max =
      range.max < kMaxJsonInteger && (is_exceeded || range.max != std::numeric_limits<int>::max());
  if (has_max) return fmt::format("an integer from {} to {}", range.min, range.max);
  const bool has_min = range.min > -kMaxJsonInteger && range.min != std::numeric_limits<int>::min();
  if (has_min) return fmt::format("an integer of at least {}", range.min);
  return "an integer";
}

std::string Describe(RealRange range) {
  std::string text = "a number";
  const bool has_min = range.min > std::numeric_limits<double>::lowest();
  if (has_min) {
    text += fmt::format("{} {}", range.min_excluded ? " above" : " of at least", range.min);
  }
  if (range.max < std::numeric_limits<double>::max()) {
    const char* const most = has_min ? "at most" : "of at most";
    text += fmt::format("{} {} {}", has_min ? " and" : "", range.max_excluded ? "below" : most,
                        range.max);
  }
  return text;
}

bool Contains(RealRange range, double value) {
  if (!std::isfinite(value)) return false;
  if (value < range.min || (range.min_excluded && value == range.min)) return false;
  return value < range.max || (!range.max_excluded && value == range.max);
}

}  // namespace

std::optional<std::int64_t> IntegerOf(const Json& json) {
  const bool too_large = json.is_number_unsigned() &&
                         json.get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxJsonInteger);
  if (!json.is_number_integer() || too_large) return std::nullopt;
  return json.get<std::int64_t>();
}

void AppendFault(std::string path, const Json* found, std::string_view expected,
                 std::vector<FieldError>& errors) {
  errors.push_back({std::move(path), fmt::format("found {}, expected {}", Found(found), expected)});
}

JsonReader::JsonReader(const Json& json, std::string path, std::vector<FieldError>* errors)
    : object_(json.is_object() ? &json : nullptr), path_(std::move(path)), errors_(errors) {
  if (object_ == nullptr) Fault(path_, &json, "an object");
}

const Json* JsonReader::Find(std::string_view name) {
  if (std::ranges::find(known_, name) == known_.end()) known_.push_back(name);
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(std::string(name));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string JsonReader::Child(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void JsonReader::RefuseOthers() {
  if (object_ == nullptr) return;
  for (const auto& [key, value] : object_->items()) {
    if (std::ranges::find(known_, std::string_view(key)) != known_.end()) continue;
    errors_->push_back({Child(key), fmt::format("unknown field; {}", SuggestName(key, known_))});
  }
}

void JsonReader::Fault(std::string path, const Json* found, std::string_view expected) {
  AppendFault(std::move(path), found, expected, *errors_);
}

void JsonReader::Read(const Json& json, const std::string& path, bool& value) {
  if (!json.is_boolean()) return Fault(path, &json, "true or false");
  value = json.get<bool>();
}

void JsonReader::Read(const Json& json, const std::string& path, std::string& value) {
  if (!json.is_string()) return Fault(path, &json, "a string");
  value = json.get<std::string>();
}

void JsonReader::Read(const Json& json, const std::string& path, double& value, RealRange range) {
  if (!json.is_number() || !Contains(range, json.get<double>())) {
    return Fault(path, &json, Describe(range));
  }
  value = json.get<double>();
}

std::optional<std::int64_t> JsonReader::ReadInteger(const Json& json, const std::string& path,
                                                    IntegerRange range) {
  const std::optional<std::int64_t> value = IntegerOf(json);
  if (value && *value >= range.min && *value <= range.max) return value;
  const bool is_exceeded = json.is_number_integer() && json > Json(range.max);
  Fault(path, &json, Describe(range, is_exceeded));
  return std::nullopt;
}

}  // namespace lockstep
