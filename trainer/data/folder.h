// Looks for data files in a folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::train {

// Returns the first path that exists, or nullopt. An error (of DataFileError, never NotFound) says
// that a path could not be looked for: whether it exists is then unknown.
absl::StatusOr<std::optional<std::string>> FirstExisting(const std::vector<std::string>& paths);

// Like FirstExisting for names in `folder`. NotFound names the folder, `what` was looked for, and
// the names.
absl::StatusOr<std::string> FindDataFile(const std::string& folder, const std::string& what,
                                         const std::vector<std::string>& names);

struct FolderEntry {
  std::string name;
  bool is_folder = false;  // or a link to one
};

// Returns the entries of `folder` in the order of their names' bytes, without names that start with
// a dot. Errors are those of DataFileError.
absl::StatusOr<std::vector<FolderEntry>> ListFolder(const std::string& folder);

}  // namespace lockstep::train
