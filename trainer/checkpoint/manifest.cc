#include "trainer/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/shallow_json.h"
#include "base/status.h"
#include "trainer/core/crc32c.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

constexpr int kManifestLevels = 64;  // more than any state has

constexpr std::uint64_t kLatestSavedTime =
    std::chrono::floor<std::chrono::seconds>(Time::max().time_since_epoch()).count();

// Returns the canonical text of a JSON value: sorted keys, no white space, invalid UTF-8 replaced.
std::string Canonical(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string Hex(std::uint32_t value) {
  return fmt::format("{:08x}", value);
}

std::optional<std::uint32_t> FromHex(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

absl::Status Damaged(const std::string& path, const std::string& message) {
  return absl::DataLossError(fmt::format("{}: {}", path, message));
}

// Returns the field, or null if it is absent or `is` is false for it.
const Json* Field(const Json& object, const char* key, bool (Json::*is)() const noexcept) {
  const auto found = object.find(key);
  return found != object.end() && ((*found).*is)() ? &*found : nullptr;
}

// Returns the epoch if the field is absent, as in older checkpoints, or beyond the range of Time.
Time SavedTime(const Json& json) {
  const Json* seconds = Field(json, "savedTime", &Json::is_number_unsigned);
  if (seconds == nullptr || seconds->get<std::uint64_t>() > kLatestSavedTime) return Time();
  return std::chrono::system_clock::from_time_t(seconds->get<std::time_t>());
}

// Returns the part of a state that is not an object, though whoever reads it needs one; else "".
std::string PartThatIsNoObject(const Json& state) {
  if (!state.is_object()) return "state";
  for (const char* part : {"run", "settings", "evaluation"}) {
    const auto found = state.find(part);
    if (found != state.end() && !found->is_object()) return fmt::format("state.{}", part);
  }
  return "";
}

absl::StatusOr<ManifestFile> DecodeFile(const Json& json, const std::string& path) {
  if (json.is_object()) {
    const Json* name = Field(json, "name", &Json::is_string);
    const Json* bytes = Field(json, "bytes", &Json::is_number_unsigned);
    const auto crc32c = FromHex(json.value("crc32c", Json()));
    if (name != nullptr && bytes != nullptr && crc32c) {
      return ManifestFile{name->get<std::string>(), bytes->get<std::uint64_t>(), *crc32c};
    }
  }
  return Damaged(path,
                 fmt::format("files: found {}, expected name, bytes and crc32c", JsonText(json)));
}

}  // namespace

bool HasTrainingFile(const Manifest& manifest) {
  return std::ranges::find(manifest.files, kTrainingName, &ManifestFile::name) !=
         manifest.files.end();
}

std::string EncodeManifest(const Manifest& manifest) {
  Json json = {{"formatVersion", HasTrainingFile(manifest) ? kCheckpointFormat : 1},
               {"step", manifest.step},
               {"state", manifest.state},
               {"modelHash", manifest.model_hash},
               {"savedTime", std::chrono::system_clock::to_time_t(manifest.saved)},
               {"files", Json::array()}};
  for (const ManifestFile& file : manifest.files) {
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"crc32c", Hex(file.crc32c)}});
  }
  // Round-trip through text, so that the checksum covers what a reader sees (NaN becomes null).
  json = Json::parse(Canonical(json));
  json["checksum"] = Hex(Crc32c(Canonical(json)));
  return json.dump(2) + "\n";
}

absl::StatusOr<Manifest> DecodeManifest(const std::string& text, const std::string& path) {
  Json json = ParseShallowJson(text, kManifestLevels);
  if (!json.is_object()) {
    return Damaged(path, fmt::format("{} bytes that are not a JSON object of at most {} levels",
                                     text.size(), kManifestLevels));
  }
  const Json* version = Field(json, "formatVersion", &Json::is_number_unsigned);
  if (version == nullptr) return Damaged(path, "there is no formatVersion");
  if (*version > kCheckpointFormat) {
    return absl::FailedPreconditionError(
        fmt::format("{}: formatVersion is {}, this program reads up to {}: use a newer one, or "
                    "another checkpoint directory",
                    path, JsonText(*version), kCheckpointFormat));
  }
  const Json checksum = json.value("checksum", Json());
  json.erase("checksum");
  const std::string expected = Hex(Crc32c(Canonical(json)));
  if (checksum != expected) {
    return Damaged(path,
                   fmt::format("checksum is {}, expected \"{}\"", JsonText(checksum), expected));
  }
  const Json* step = Field(json, "step", &Json::is_number_integer);
  const Json* model_hash = Field(json, "modelHash", &Json::is_string);
  const Json* files = Field(json, "files", &Json::is_array);
  if (step == nullptr || model_hash == nullptr || files == nullptr || !json.contains("state")) {
    return Damaged(path, "a field is missing, expected step, state, modelHash and files");
  }
  if (const std::string part = PartThatIsNoObject(json["state"]); !part.empty()) {
    return Damaged(path, fmt::format("{} is not a JSON object", part));
  }
  Manifest manifest{step->get<std::int64_t>(),
                    json["state"],
                    model_hash->get<std::string>(),
                    {},
                    SavedTime(json)};
  for (const Json& file : *files) {
    LOCKSTEP_ASSIGN_OR_RETURN(ManifestFile decoded, DecodeFile(file, path));
    manifest.files.push_back(std::move(decoded));
  }
  return manifest;
}

}  // namespace lockstep::train
