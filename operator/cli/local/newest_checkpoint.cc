#include "operator/cli/local/newest_checkpoint.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/folder_entries.h"

namespace lockstep::cli {

namespace {

namespace fs = std::filesystem;

constexpr char kManifest[] = "manifest.json";

using Number = std::pair<std::int64_t, std::int64_t>;

bool ReadWhole(std::string_view text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Returns the step and the copy of a folder "step-00000938" or "step-00000938.1"; nullopt for
// another name.
std::optional<Number> NumberOf(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  Number number;
  const std::size_t dot = name.find('.');
  if (!ReadWhole(name.substr(0, dot), number.first)) return std::nullopt;
  if (dot == name.npos || ReadWhole(name.substr(dot + 1), number.second)) return number;
  return std::nullopt;
}

// The trainer goes by the names, too: times may be those of a copy of the folder.
fs::path NewestIn(const fs::path& folder) {
  fs::path newest;
  std::optional<Number> highest;
  std::error_code error;
  for (const fs::path& checkpoint : PathsIn(folder.string())) {
    const auto number = NumberOf(checkpoint.filename().string());
    if (!number || (highest && *number < *highest)) continue;
    if (!fs::exists(checkpoint / kManifest, error)) continue;
    newest = checkpoint;
    highest = number;
  }
  return newest;
}

}  // namespace

std::string NewestCheckpoint(const std::string& folder, bool of_variants) {
  std::string newest;
  fs::file_time_type at;
  std::error_code error;
  for (const fs::path& one : of_variants ? PathsIn(folder) : std::vector<fs::path>{folder}) {
    const fs::path checkpoint = NewestIn(one);
    const fs::file_time_type written = fs::last_write_time(checkpoint / kManifest, error);
    if (error || (!newest.empty() && written <= at)) continue;
    newest = checkpoint.string();
    at = written;
  }
  return newest;
}

}  // namespace lockstep::cli
