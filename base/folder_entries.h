// Lists a folder.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace lockstep {

// Returns the paths of what is in the folder, in any order, as far as it can be read: of a file
// system that is away for a while, only some. A range-for over an iterator throws in that case.
inline std::vector<std::filesystem::path> PathsIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  return paths;
}

}  // namespace lockstep
