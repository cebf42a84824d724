#include "api/v1/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/characters.h"
#include "base/json_text.h"
#include "base/rfc3339.h"

namespace lockstep::api {

void FieldReader::Constant(std::string_view name, std::string_view expected) {
  const Json* found = Find(name);
  if (found != nullptr && *found == Json(std::string(expected))) return;
  if (is_object()) Fault(Child(name), found, fmt::format("\"{}\"", expected));
}

void FieldReader::Finish() {
  if (unknown_ == UnknownFields::kRefuse) RefuseOthers();
}

void FieldReader::Read(const Json& json, const std::string& path, Time& value) {
  const std::optional<Time> time =
      json.is_string() ? ParseRfc3339(json.get_ref<const std::string&>()) : std::nullopt;
  if (!time) return Fault(path, &json, "a time such as \"2026-05-01T12:00:00Z\"");
  value = *time;
}

void FieldReader::Read(const Json& json, const std::string& path, Json& value) {
  if (!json.is_object()) return Fault(path, &json, "an object");
  value = json;
}

void FieldReader::Read(const Json& json, const std::string& path, SharedJson& value) {
  if (!json.is_object()) return Fault(path, &json, "an object");
  value = Json(json);
}

void FieldReader::Read(const Json& json, const std::string& path, SharedJson& value,
                       ListOfObjects /*bounds*/) {
  if (!json.is_array()) return Fault(path, &json, "a list");
  const std::size_t before = errors().size();
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_object()) Fault(fmt::format("{}[{}]", path, i), &json[i], "an object");
  }
  if (errors().size() == before) value = Json(json);
}

void FieldReader::Read(const Json& json, const std::string& path,
                       std::map<std::string, std::string>& value) {
  if (!json.is_object()) return Fault(path, &json, "an object of strings");
  value.clear();
  for (const auto& [key, entry] : json.items()) {
    Read(entry, fmt::format("{}[{}]", path, key), value[key]);
  }
}

void FieldReader::Read(const Json& json, const std::string& path, std::string& value,
                       TextRange range) {
  Read(json, path, value);
  if (!json.is_string() || unknown_ == UnknownFields::kIgnoreAndClamp) return;
  const std::size_t found = CharacterCount(value);
  if (found >= range.min && found <= range.max) return;
  errors().push_back(
      {path, fmt::format("found {} characters, expected {} to {}", found, range.min, range.max)});
}

void FieldReader::CheckList(const Json& json, const std::string& path, ListRange range) {
  if (!json.is_array() || unknown_ == UnknownFields::kIgnoreAndClamp) return;
  if (json.size() < range.min || json.size() > range.max) {
    errors().push_back({path, fmt::format("found {} entries, expected {} to {}", json.size(),
                                          range.min, range.max)});
    return;
  }
  for (auto entry = json.begin(); range.is_set && entry != json.end(); ++entry) {
    const auto first = std::find(json.begin(), entry, *entry);
    if (first == entry) continue;
    errors().push_back(
        {fmt::format("{}[{}]", path, entry - json.begin()),
         fmt::format("found {} a second time, expected each once", JsonText(*entry))});
  }
}

std::optional<std::int64_t> FieldReader::ReadClampedInteger(const Json& json,
                                                            const std::string& path,
                                                            IntegerRange range) {
  const auto value =
      unknown_ == UnknownFields::kIgnoreAndClamp ? IntegerOf(json) : std::optional<std::int64_t>();
  return value ? std::clamp(*value, range.min, range.max) : ReadInteger(json, path, range);
}

void FieldReader::EnumFault(const std::string& path, const Json& found,
                            const std::vector<std::string_view>& names) {
  Fault(path, &found, fmt::format("one of {}", fmt::join(names, ", ")));
}

Json FieldWriter::Write(const Time& value) {
  return FormatRfc3339(value);
}

Json FieldWriter::Write(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

}  // namespace lockstep::api
