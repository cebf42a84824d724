#include "operator/cli/local/newest_checkpoint.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "api/v1/checkpoint_name.h"
#include "base/folder_entries.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// The trainer goes by the names, too: times may be those of a copy of the folder.
fs::path NewestIn(const fs::path& folder) {
  fs::path newest;
  std::optional<api::CheckpointName> highest;
  std::error_code error;
  for (const fs::path& checkpoint : PathsIn(folder.string())) {
    const auto name = api::CheckpointName::Parse(checkpoint.filename().string());
    if (!name || (highest && *name < *highest)) continue;
    if (!fs::exists(checkpoint / api::kManifestName, error)) continue;
    newest = checkpoint;
    highest = name;
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
    const fs::file_time_type written = fs::last_write_time(checkpoint / api::kManifestName, error);
    if (error || (!newest.empty() && written <= at)) continue;
    newest = checkpoint.string();
    at = written;
  }
  return newest;
}

}  // namespace lockstep::cli
