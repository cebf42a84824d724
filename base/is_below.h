// Compares paths as texts.
#pragma once

#include <string_view>

namespace lockstep {

// Returns true if the path is that of the folder, or lies in it. Pure: it neither follows links nor
// resolves "..". Requires: both are absolute.
inline bool IsBelow(std::string_view path, std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace lockstep
