#include "operator/cli/local/newest_checkpoint.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/folder_entries.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

std::string NewestCheckpoint(const std::string& folder, bool of_variants) {
  std::string newest;
  fs::file_time_type at;
  std::error_code error;
  for (const fs::path& one : of_variants ? PathsIn(folder) : std::vector<fs::path>{folder}) {
    for (const fs::path& checkpoint : PathsIn(one)) {
      const fs::path manifest = checkpoint / "manifest.json";
      const fs::file_time_type written = fs::last_write_time(manifest, error);
      if (error || (!newest.empty() && written <= at)) continue;
      newest = checkpoint.string();
      at = written;
    }
  }
  return newest;
}

}  // namespace lockstep::cli
